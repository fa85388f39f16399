"""Whether the trials of a sweep would finish sooner side by side, each on one rank, instead of one after the other on
many: an estimate from how busy the ranks of the first trials were.

A rank that works a share b of its time, and waits for the others in the rest, leaves 1 - b of its processor unused. One
rank that did the work of all n would take n × b times as long, and n such trials fit on the same processors: 1 / b
times as many finish in the same time. Ranks that wait by spinning look busy, so the estimate is a lower bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

MIN_TRIALS = 2
"""Completed trials that are measured before an estimate is made."""
MIN_GAIN = 1.2
"""Smaller gains aren't reported: the estimate is not that exact."""


def sentence(ranks: int, busy: Sequence[float], ran_s: Sequence[float]) -> str:
    """Returns the message of the sweep's event; "" = trials are not expected to finish sooner side by side.

    ranks: of a trial. busy: of each measured trial, the share of their time (0 to 1) that its ranks worked.
    ran_s: the seconds that each of these trials took.
    """
    if ranks < 2 or len(busy) < MIN_TRIALS:
        return ""
    share = fmean(busy)
    if share <= 0 or 1 / share < MIN_GAIN:
        return ""
    return (
        f"the ranks of the first {len(busy)} trials worked {share:.0%} of the time and waited for each other in the "
        f"rest ({fmean(ran_s):.0f} s a trial on {ranks} ranks): on 1 rank each, {ranks} trials side by side would take "
        f"about {fmean(ran_s) * ranks * share:.0f} s, so that {1 / share:.1f} times as many finish in the same time"
    )
