"""The frames that wait to be sent to a session: input, and what signal handlers add."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator

MAX_INPUT = 64
"""How many frames of input wait; then reading waits."""


class OutgoingFrames:
    """Queues frames for one sender. Signals and sizes pass the input that waits, and are never dropped.

    A signal handler may interrupt another one in the middle of `add_signal`: of Python's queues, only SimpleQueue
    allows that.
    """

    def __init__(self) -> None:
        self._signals: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._input: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._queued: queue.SimpleQueue[None] = queue.SimpleQueue()
        """An item for each frame of the other two."""
        self._room = threading.Semaphore(MAX_INPUT)

    def __iter__(self) -> Iterator[bytes]:
        """Yields the next frame as soon as there is one, without end."""
        while True:
            self._queued.get()
            yield self._next()

    def _next(self) -> bytes:
        try:
            return self._signals.get_nowait()
        except queue.Empty:
            frame = self._input.get()
            self._room.release()
            return frame

    def add_input(self, frame: bytes) -> None:
        """Adds a frame of input, as soon as there is room."""
        self._room.acquire()
        self._input.put(frame)
        self._queued.put(None)

    def add_signal(self, frame: bytes) -> None:
        """Adds a frame at once: signal handlers must not wait."""
        self._signals.put(frame)
        self._queued.put(None)
