"""SIGTERM in a rank: remembered until the training can save; enforced if it never gets there."""

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

    While the main thread waits in C, for a collective whose other ranks are gone, no Python handler runs. A thread
    notices the signal at once, and ends the process if the training doesn't react within the timeout. Forked children
    (of a process pool, a data loader) don't share it: SIGTERM ends them without affecting this process.
    """

    def __init__(self, timeout_s: Callable[[], float]) -> None:
        """Takes over SIGTERM, unless the script has its own handler or this isn't the main thread."""
        self.is_set = False
        self._timeout_s, self._is_over = timeout_s, threading.Event()
        self._previous: Any = None
        if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            return
        if threading.current_thread() is not threading.main_thread():
            return
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)
        before = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        if before != -1:  # An event loop uses the wakeup file.
            signal.set_wakeup_fd(before)
            os.close(self._reading)
            os.close(self._writing)
            return
        _watch_forks()
        _requests.append(self)
        self._previous = signal.signal(signal.SIGTERM, self._remember)
        threading.Thread(target=self._listen, name="drumbeat.termination", daemon=True).start()

    def heed(self) -> None:
        """Records that the training now ends by itself, in its own time."""
        self._is_over.set()

    def close(self) -> None:
        """Restores the handling of SIGTERM, unless the script has taken it over since."""
        self._is_over.set()
        if self._previous is not None:
            self._give_back()
            os.close(self._writing)

    def forget(self) -> None:
        """Restores SIGTERM in a forked child: a signal to the child concerns only the child."""
        self.is_set, self._is_over = False, threading.Event()
        self._give_back()
        for descriptor in (self._reading, self._writing):
            with contextlib.suppress(OSError):
                os.close(descriptor)

    def _give_back(self) -> None:
        _requests.remove(self)
        listener = signal.set_wakeup_fd(-1)
        if listener not in (-1, self._writing):  # An event loop has taken the wakeup file since.
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
                if not self._is_over.wait(self._timeout_s()):
                    os._exit(TERMINATED)
        os.close(self._reading)


_requests: list[TerminationRequest] = []
"""The requests that handle SIGTERM: one, or none."""
_masks = threading.local()
_watch = threading.Lock()
_are_forks_watched = False


def _watch_forks() -> None:
    """Makes each later fork call the functions below, which Python can't undo."""
    global _are_forks_watched  # noqa: PLW0603 (one for each process)
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
