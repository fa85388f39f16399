"""SIGTERM in a rank: remembered until the training can save, and obeyed where it never gets there."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

TERMINATED = 128 + signal.SIGTERM


class TerminationRequest:
    """Whether this process was asked to end.

    While the main thread waits in C, for a collective whose other ranks are gone, no handler of Python's runs. A
    thread hears of the signal at once, and ends the process if the training doesn't come by within its patience.
    Forked children (of a process pool, a data loader) don't share it: SIGTERM ends them, and this process isn't told.
    """

    def __init__(self, patience_s: Callable[[], float]) -> None:
        """Takes SIGTERM over, unless the script has a handler of its own or this isn't the main thread."""
        self.is_set = False
        self._patience_s, self._is_over = patience_s, threading.Event()
        self._previous: Any = None
        if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            return
        if threading.current_thread() is not threading.main_thread():
            return
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)
        before = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        if before != -1:  # An event loop listens there.
            signal.set_wakeup_fd(before)
            os.close(self._reading)
            os.close(self._writing)
            return
        _watch_forks()
        _requests.append(self)
        self._previous = signal.signal(signal.SIGTERM, self._remember)
        threading.Thread(target=self._listen, name="drumbeat.termination", daemon=True).start()

    def heed(self) -> None:
        """Says that the training ends by itself now, in the time that it takes."""
        self._is_over.set()

    def close(self) -> None:
        """Gives SIGTERM back, unless the script has taken it over since."""
        self._is_over.set()
        if self._previous is not None:
            self._give_back()
            os.close(self._writing)

    def forget(self) -> None:
        """Leaves SIGTERM to its parent in a child that was forked: what the child gets means the child alone."""
        self.is_set, self._is_over = False, threading.Event()
        self._give_back()
        for descriptor in (self._reading, self._writing):
            with contextlib.suppress(OSError):
                os.close(descriptor)

    def _give_back(self) -> None:
        _requests.remove(self)
        listener = signal.set_wakeup_fd(-1)
        if listener not in (-1, self._writing):  # An event loop has begun to listen since.
            signal.set_wakeup_fd(listener)
        if signal.getsignal(signal.SIGTERM) == self._remember:
            signal.signal(signal.SIGTERM, self._previous)
        self._previous = None

    def _remember(self, _number: int, _frame: FrameType | None) -> None:
        self.is_set = True

    def _listen(self) -> None:
        while heard := os.read(self._reading, 64):
            if signal.SIGTERM in heard:
                self.is_set = True
                if not self._is_over.wait(self._patience_s()):
                    os._exit(TERMINATED)
        os.close(self._reading)


_requests: list[TerminationRequest] = []
"""Those that have SIGTERM: one, or none."""
_masks = threading.local()
_watch = threading.Lock()
_are_forks_watched = False


def _watch_forks() -> None:
    """Has each fork from now on call the functions below; Python can't take that back."""
    global _are_forks_watched  # noqa: PLW0603 (one of each process)
    with _watch:
        if not _are_forks_watched:
            _are_forks_watched = True
            os.register_at_fork(before=_hold, after_in_parent=_release, after_in_child=_forget)


def _hold() -> None:
    # A child that is ended in its first moments would still write into its parent's pipe.
    if _requests:
        _masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})


def _release() -> None:
    before, _masks.before = getattr(_masks, "before", None), None
    if before is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _forget() -> None:
    for request in tuple(_requests):
        request.forget()
    _release()
