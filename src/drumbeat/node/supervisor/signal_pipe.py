"""Signals as a file for a selector."""

from __future__ import annotations

import os
import selectors
import signal


class SignalPipe:
    """Reports SIGCHLD and SIGTERM to a selector; SIGINT and SIGHUP are ignored."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, _ignore)
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        selector.register(self._reader, selectors.EVENT_READ)

    def read(self) -> bytes:
        """Returns the numbers of the signals since the last call."""
        try:
            return os.read(self._reader, 4096)
        except BlockingIOError:
            return b""


def _ignore(*_: object) -> None:
    """Does nothing: Python itself writes the number to the pipe, but only for signals with a handler."""
