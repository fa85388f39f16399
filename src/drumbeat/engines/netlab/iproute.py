"""Calls of the programs `ip` and `tc` (iproute2). Standard library only: the lab's holder imports it."""

from __future__ import annotations

import subprocess


def ip(*words: str) -> None:
    """Calls `ip`. Raises OSError with its message."""
    _run("ip", *words)


def tc(*words: str) -> None:
    """Calls `tc`. Raises OSError with its message."""
    _run("tc", *words)


def _run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(1, f"{' '.join(words)}: {done.stderr.strip()}")
