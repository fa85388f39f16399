"""A cache of thinned curves. Series are append-only, so a series of the same length has the same curve."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Final

from drumbeat.model.metrics import Point

MAX_POINTS = 100_000
"""Total points of all cached curves, about 20 MiB."""


class CurveCache:
    """Caches the most recently used curves. Thread-safe."""

    def __init__(self, max_points: int = MAX_POINTS) -> None:
        self._curves: Final[OrderedDict[Hashable, list[Point]]] = OrderedDict()
        self._lock = threading.Lock()
        self._max_points, self._points = max_points, 0

    def get(self, key: Hashable) -> list[Point] | None:
        """Returns a curve, None = it isn't cached."""
        with self._lock:
            if key not in self._curves:
                return None
            self._curves.move_to_end(key)
            return list(self._curves[key])

    def put(self, key: Hashable, curve: list[Point]) -> None:
        """Adds a curve, and drops the least recently used ones."""
        with self._lock:
            self._points += len(curve) - len(self._curves.pop(key, ()))
            self._curves[key] = list(curve)
            while self._points > self._max_points:
                _, oldest = self._curves.popitem(last=False)
                self._points -= len(oldest)
