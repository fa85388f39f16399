"""SIGTERM in a rank: remembered until the training can save, and obeyed where it never gets there."""

from __future__ import annotations

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
        self._previous = signal.signal(signal.SIGTERM, self._remember)
        threading.Thread(target=self._listen, name="drumbeat.termination", daemon=True).start()

    def heed(self) -> None:
        """Says that the training ends by itself now, in the time that it takes."""
        self._is_over.set()

    def close(self) -> None:
        """Gives SIGTERM back."""
        self._is_over.set()
        if self._previous is not None:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGTERM, self._previous)
            os.close(self._writing)
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
