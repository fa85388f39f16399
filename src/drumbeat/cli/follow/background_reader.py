"""Reads a blocking source in a thread, so that the printing side can also watch the time and the keyboard."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")

AHEAD = 200
"""The most items that are read ahead of the printing side."""

AHEAD_SIZE = 1 << 20
"""The most that they may weigh together. A heavier item is passed alone."""


@dataclass(frozen=True)
class Signalled:
    """A signal arrived."""

    number: int


@dataclass(frozen=True)
class _Ended:
    error: BaseException | None


class _ReadAhead:
    """Limits how far the reading side reads ahead."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = self._size = 0

    def take(self, size: int) -> None:
        """Waits until there is room for an item of that size."""
        with self._changed:
            self._changed.wait_for(lambda: not self._count or self._has_room(size))
            self._count, self._size = self._count + 1, self._size + size

    def give_back(self, size: int) -> None:
        """Makes room for an item that the printing side has taken."""
        with self._changed:
            self._count, self._size = self._count - 1, self._size - size
            self._changed.notify()

    def _has_room(self, size: int) -> bool:
        return self._count < AHEAD and self._size + size <= AHEAD_SIZE


def _weightless(_item: object) -> int:
    return 0


class Batches(Generic[T]):
    """Yields lists of items and signals as they arrive, and an empty list when nothing has come for `every_s`.

    weigh: what an item takes of `AHEAD_SIZE`, of which a batch holds about that much too.
    """

    def __init__(self, source: Iterable[T], every_s: float = 0.1, weigh: Callable[[T], int] = _weightless) -> None:
        self._source = source
        self._every_s = every_s
        self._weigh = weigh
        # A signal handler may run while this same thread is inside get(): only SimpleQueue's put is safe then.
        self._queue: SimpleQueue[T | Signalled | _Ended] = SimpleQueue()
        self._room = _ReadAhead()

    def signal(self, number: int) -> None:
        """Puts a signal in line. May be called from a signal handler."""
        self._queue.put(Signalled(number))

    def __iter__(self) -> Iterator[list[T | Signalled]]:
        threading.Thread(target=self._read, name="batches", daemon=True).start()
        while True:
            batch, ended = self._gather()
            if batch or not ended:
                yield batch
            if ended:
                if ended.error:
                    raise ended.error
                return

    def _read(self) -> None:
        try:
            for item in self._source:
                self._room.take(self._weigh(item))
                self._queue.put(item)
            self._queue.put(_Ended(None))
        except BaseException as error:  # noqa: BLE001 - it is raised again where the batches are read
            self._queue.put(_Ended(error))

    def _gather(self) -> tuple[list[T | Signalled], _Ended | None]:
        batch: list[T | Signalled] = []
        timeout = self._every_s
        weight = 0
        while len(batch) < AHEAD and weight < AHEAD_SIZE:
            try:
                item = self._queue.get(timeout=timeout) if timeout else self._queue.get_nowait()
            except Empty:
                break
            if isinstance(item, _Ended):
                return batch, item
            if not isinstance(item, Signalled):
                weight += (size := self._weigh(item))
                self._room.give_back(size)
            batch.append(item)
            timeout = 0.0
        return batch, None
