"""The engine's status of a whole gang."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable


def gang_word(words: Iterable[str]) -> str:
    """Returns the status that all nodes share, or the count of each: `2 Running, 1 Pending`."""
    counts = Counter(words)
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{number} {word}" for word, number in sorted(counts.items(), key=lambda one: (-one[1], one[0])))
