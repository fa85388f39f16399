"""One live object per name: made when it is asked for, kept while it is used and for a while after."""

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
    """Gives each name's object to one thread at a time. Beyond `idle` objects, the one unused for longest goes."""

    def __init__(self, make: Callable[[str], T], *, idle: int) -> None:
        self._make = make
        self._idle = idle
        self._held: OrderedDict[str, _Held[T]] = OrderedDict()
        self._lock = threading.Lock()

    @contextmanager
    def use(self, name: str) -> Generator[T]:
        """The object, nobody else's until the block ends. What raises out of the block makes it be made again."""
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
        """Has the object made again for its next user, after the present one."""
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
