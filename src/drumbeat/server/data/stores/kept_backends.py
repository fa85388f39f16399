"""A cache of backends with their connections."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

from drumbeat.server.data.stores.backend_contract import Backend


@dataclass
class _Kept:
    """A cached backend."""

    backend: Backend
    users: int = 0
    is_evicted: bool = False
    """Whether it was evicted; then its last user closes it."""


class KeptBackends:
    """Caches up to `most` backends by key, beside evicted ones that are still in use. Thread-safe."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._lock = threading.Lock()

    @contextmanager
    def use(self, key: str, make: Callable[[], Backend]) -> Generator[Backend]:
        """Yields a backend that stays open until the end of the block; `make` creates one if none is cached."""
        kept = self._taken(key) or self._put(key, make())  # Outside the lock, because `make` may take long.
        try:
            yield kept.backend
        finally:
            with self._lock:
                kept.users -= 1
                is_last = kept.is_evicted and kept.users == 0
            if is_last:
                kept.backend.close()

    def _taken(self, key: str) -> _Kept | None:
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None:
                self._kept.move_to_end(key)
                kept.users += 1
            return kept

    def _put(self, key: str, made: Backend) -> _Kept:
        """Adds a new backend, unless another thread has done so, and closes evicted ones that aren't in use."""
        unused: list[Backend] = []
        with self._lock:
            kept = self._kept.setdefault(key, _Kept(made))
            kept.users += 1
            if kept.backend is not made:
                unused.append(made)
            while len(self._kept) > self._most:
                _, oldest = self._kept.popitem(last=False)
                oldest.is_evicted = True
                if oldest.users == 0:
                    unused.append(oldest.backend)
        for one in unused:
            one.close()
        return kept

    def close(self) -> None:
        """Closes every cached backend, also those in use."""
        with self._lock:
            while self._kept:
                self._kept.popitem()[1].backend.close()
