"""Which rank is slow, from looks at a job that goes on: the others wait for it in most of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from drumbeat.core.diagnosis.hangs.activity import Activity
from drumbeat.core.diagnosis.hangs.verdict import HangVerdict, Stillness

LOOKS = 10
"""Looks by which ranks are judged."""
MIN_LOOKS = 8
"""In so many of them, the others must wait for one rank, and always for the same."""
_PHASES = {"data": "loads data", "compute": "computes"}


def slow_rank(looks: Sequence[Sequence[Activity]]) -> HangVerdict | None:
    """Returns the rank that keeps the others waiting, and with what; None = no one rank does."""
    latest = looks[-LOOKS:]
    odd = [one for look in latest if (one := _odd(look)) is not None]
    if len(latest) < LOOKS or not odd:
        return None
    (rank, count), *_ = Counter(one.rank for one in odd).most_common(1)
    if count < MIN_LOOKS:
        return None
    seen = [one for one in odd if one.rank == rank]
    (phase, _), *_ = Counter(one.phase for one in seen).most_common(1)
    (place, _), *_ = Counter(one.place for one in seen if one.phase == phase).most_common(1)
    doing = f"{_PHASES.get(phase, 'works')}{f' at {place}' if place else ''}"
    node = seen[-1].node
    often = f"in {count} of {len(latest)} looks the other ranks waited for it"
    sentence = f"rank {rank} on node {node} is slow: {often}, while it {doing}"
    return HangVerdict(Stillness.SLOW, sentence, rank, node)


def _odd(look: Sequence[Activity]) -> Activity | None:
    """Returns the rank that all others wait for in one look, None = there is no such one."""
    going = [one for one in look if not one.waits_for_ranks]
    return going[0] if len(going) == 1 and len(look) > 1 else None
