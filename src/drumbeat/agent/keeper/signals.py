"""Signals as something that a selector can wait for."""

from __future__ import annotations

import os
import selectors
import signal


class Bell:
    """Rings for SIGCHLD and SIGTERM; SIGINT and SIGHUP are for others."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._hear, tell = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, _hear)
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        selector.register(self._hear, selectors.EVENT_READ)

    def heard(self) -> bytes:
        """The numbers of the signals since the last time."""
        try:
            return os.read(self._hear, 4096)
        except BlockingIOError:
            return b""


def _hear(*_: object) -> None:
    """Python writes the number to the bell's pipe by itself, but only for signals that have a handler."""
