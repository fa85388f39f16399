"""A machine that has no thread left for a moment, as where the number of processes is limited."""

from __future__ import annotations

import threading

import pytest


def refuse_once(patch: pytest.MonkeyPatch, name: str) -> list[str]:
    """The next thread whose name begins so can't be started; gives what was refused, for the test to see."""
    start, refused = threading.Thread.start, list[str]()

    def start_or_not(thread: threading.Thread) -> None:
        if not refused and thread.name.startswith(name):
            refused.append(thread.name)
            raise RuntimeError("can't start new thread")
        start(thread)

    patch.setattr(threading.Thread, "start", start_or_not)
    return refused
