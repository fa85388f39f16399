"""How long requests took, as a histogram of fixed intervals: what the router counts and the server reads."""

from __future__ import annotations

from collections.abc import Sequence

BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper ends of the intervals. One more counts what took longer."""


def percentile_s(counts: Sequence[int], share: float) -> float | None:
    """Returns within how many seconds that share of the requests ended; None = there were none.

    Within an interval, requests are taken as evenly spread. What took longer than the last end counts as that end.
    """
    total = sum(counts)
    if not total:
        return None
    wanted, below, low = share * total, 0, 0.0
    for end, count in zip(BUCKETS_S, counts, strict=False):
        if count and below + count >= wanted:
            return low + (end - low) * max(0.0, wanted - below) / count
        below, low = below + count, end
    return BUCKETS_S[-1]
