"""Curves that were thinned before: a series only grows, so one of the same length has the same curve."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Final

from drumbeat.model.metrics import Point

MAX_POINTS = 100_000
"""Of all curves that are kept, some 20 MiB."""


class CurveCache:
    """Keeps the curves that were asked for last. Thread-safe."""

    def __init__(self, max_points: int = MAX_POINTS) -> None:
        self._curves: Final[OrderedDict[Hashable, list[Point]]] = OrderedDict()
        self._lock = threading.Lock()
        self._max_points, self._points = max_points, 0

    def get(self, key: Hashable) -> list[Point] | None:
        """Returns the curve, None where it isn't kept."""
        with self._lock:
            if key not in self._curves:
                return None
            self._curves.move_to_end(key)
            return list(self._curves[key])

    def put(self, key: Hashable, curve: list[Point]) -> None:
        """Keeps a curve, and forgets those that weren't asked for longest."""
        with self._lock:
            self._points += len(curve) - len(self._curves.pop(key, ()))
            self._curves[key] = list(curve)
            while self._points > self._max_points:
                _, oldest = self._curves.popitem(last=False)
                self._points -= len(oldest)
