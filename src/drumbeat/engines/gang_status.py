"""The word of a cluster for a whole gang."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable


def gang_word(words: Iterable[str]) -> str:
    """Returns what the nodes of a gang have in common, or how many say what: `2 Running, 1 Pending`."""
    counts = Counter(words)
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{number} {word}" for word, number in sorted(counts.items(), key=lambda one: (-one[1], one[0])))
