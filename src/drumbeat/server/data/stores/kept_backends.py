"""The backends of the stores that were used last, with their connections."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

from drumbeat.server.data.stores.backend_contract import Backend


@dataclass
class _Kept:
    """One backend."""

    backend: Backend
    users: int = 0
    is_evicted: bool = False
    """Whether others have its place: its last user closes it."""


class KeptBackends:
    """Up to `most` backends by key, and those evicted ones that are still used. Thread-safe."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._lock = threading.Lock()

    @contextmanager
    def use(self, key: str, make: Callable[[], Backend]) -> Generator[Backend]:
        """Gives a backend that isn't closed before the end of the block; `make` makes one if none is kept."""
        kept = self._taken(key) or self._put(key, make())  # Outside the lock: making one may take long.
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
        """Keeps a new backend, unless another thread was quicker, and closes those that aren't used any more."""
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
        """Closes every backend that is kept, also those that are used."""
        with self._lock:
            while self._kept:
                self._kept.popitem()[1].backend.close()
