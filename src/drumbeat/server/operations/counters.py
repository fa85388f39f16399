"""Thread-safe counters and histograms, which scrapes read."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

Labels = tuple[str, ...]
"""The values of a metric's labels, in the order of their names."""


class Counter:
    """Sums by labels. Thread-safe."""

    def __init__(self) -> None:
        self._sums: defaultdict[Labels, float] = defaultdict(float)
        self._lock = threading.Lock()

    def add(self, *labels: str, amount: float = 1.0) -> None:
        """Adds to the sum of these labels."""
        with self._lock:
            self._sums[labels] += amount

    def read(self) -> dict[Labels, float]:
        """Returns the sums so far."""
        with self._lock:
            return dict(self._sums)


@dataclass
class Bucketed:
    """The number of observed values in each bucket, and their sum. The last bucket has no upper bound."""

    counts: list[int]
    total: float = 0.0


@dataclass
class Histogram:
    """Counts observed values by labels, in buckets. Thread-safe."""

    bounds: Sequence[float]
    """The upper bounds of the buckets but the last, in ascending order."""
    _by_labels: dict[Labels, Bucketed] = field(default_factory=dict[Labels, Bucketed])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def observe(self, value: float, *labels: str) -> None:
        """Counts a value."""
        with self._lock:
            one = self._by_labels.setdefault(labels, Bucketed([0] * (len(self.bounds) + 1)))
            one.counts[bisect_left(self.bounds, value)] += 1
            one.total += value

    def read(self) -> dict[Labels, tuple[list[tuple[str, float]], float]]:
        """Returns the cumulative buckets (`le`, count) and the sum, by labels."""
        with self._lock:
            copies = {labels: (list(one.counts), one.total) for labels, one in self._by_labels.items()}
        bounds = [*(f"{bound:g}" for bound in self.bounds), "+Inf"]
        return {
            labels: ([(bound, float(sum(counts[: n + 1]))) for n, bound in enumerate(bounds)], total)
            for labels, (counts, total) in copies.items()
        }
