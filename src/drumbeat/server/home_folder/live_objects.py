"""A cache of one object per name, which is created on demand and kept for a while after use."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass
class _Held(Generic[T]):
    value: T
    users: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


class OnePerName(Generic[T]):
    """Lends each name's object to one thread at a time. Keeps the `idle` most recently used objects."""

    def __init__(self, make: Callable[[str], T], *, idle: int) -> None:
        self._make = make
        self._idle = idle
        self._held: OrderedDict[str, _Held[T]] = OrderedDict()
        self._lock = threading.Lock()

    @contextmanager
    def use(self, name: str) -> Generator[T]:
        """Yields the object for exclusive use in the block. An exception from the block discards it."""
        held = self._taken(name)
        try:
            with held.lock:
                try:
                    yield held.value
                except BaseException:
                    held.value = self._make(name)
                    raise
        finally:
            self._left(held)

    def forget(self, name: str) -> None:
        """Discards the object after its current use."""
        held = self._taken(name)
        try:
            with held.lock:
                held.value = self._make(name)
        finally:
            self._left(held)

    def _taken(self, name: str) -> _Held[T]:
        with self._lock:
            held = self._held.get(name)
            if held is None:
                held = self._held[name] = _Held(self._make(name))
            self._held.move_to_end(name)
            held.users += 1
            return held

    def _left(self, held: _Held[T]) -> None:
        with self._lock:
            held.users -= 1
            while len(self._held) > self._idle:
                oldest = next((name for name, one in self._held.items() if one.users == 0), None)
                if oldest is None:
                    return
                del self._held[oldest]
