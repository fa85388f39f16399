"""Finds the rank or node that keeps the others waiting, from samples of a job that makes progress.

Ranks are compared within one look, never with themselves at another time: a machine that is busy, or a network that is
slow, makes all of them slower. Only a wait that has ended counts, and however many looks fall into it, it counts once.
A hang is a wait that doesn't end, and an only rank that prepares something while the others wait is one long wait.
Time of which it is undecided whether a rank waits is no wait of those that would wait, and one of those that are slow.
"""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from drumbeat.core.diagnosis.hangs.hang_verdict import HangVerdict, Stillness
from drumbeat.core.diagnosis.hangs.straggler_phases import RankPhases

Look = Sequence[RankPhases]
"""All ranks of a job, sampled at the same time."""

MIN_WAITS, MAX_WAITS = 10, 40
"""By how many waits ranks are judged, the latest ones."""
MIN_SHARE = 0.2
"""A slow rank makes the others wait for so much of the time."""
MIN_ERRORS = 5.0
"""That part must be so many times its standard error: chance, and single long waits, don't come to that."""
_MIN_ELSEWHERE = 0.05
"""A rank has gone on if so many samples aren't in its wait; fewer may be stacks that were read while they changed."""
_MEETING = re.compile(r"barrier |monitored_barrier |all_\w+ |reduce_scatter\w* ")
"""Collectives that no rank leaves before all have come: once one has left, each has ended its wait there."""
_DOING = {"data": ("loads data", "load data"), "compute": ("computes", "compute")}
_ASLEEP = ("sleeps or waits", "sleep or wait")


@dataclass
class WaitRecord:
    """The looks at one round, as long as they count."""

    _open: list[Look] = field(default_factory=list[Look])
    """Looks since the last time that all ranks are known to have gone on."""
    _ended: list[list[Look]] = field(default_factory=list[list[Look]])

    def take(self, look: Look) -> None:
        """Takes the next look."""
        if self._open and _all_went_on(self._open, look):
            self._ended = [*self._ended[1 - MAX_WAITS :], self._open]
            self._open = []
        # A wait of hours needs no more looks than these.
        self._open = [*self._open[1 - MAX_WAITS :], look]

    def slow(self) -> HangVerdict | None:
        """Returns the rank, or the node, that keeps the others waiting, and with what; None = no one does."""
        return _slow(self._ended) if len(self._ended) >= MIN_WAITS else None


def _all_went_on(looks: Sequence[Look], latest: Look) -> bool:
    """Whether each rank is known to have ended, since the first of these looks, the wait in which it was then."""
    before = {one.rank: one for one in looks[0]}
    moved = {one.rank for look in (*looks[1:], latest) for one in look if _has_left(before.get(one.rank), one)}
    # A rank that polls on its GPU is hardly seen elsewhere, and never sleeps.
    left = {before[rank].waits_at for rank in moved if rank in before}
    over = {one.rank for one in before.values() if one.waits_at in left and _MEETING.match(one.waits_at)}
    return all(one.rank in moved | over for one in latest)


def _has_left(before: RankPhases | None, now: RankPhases) -> bool:
    """Whether a rank was seen outside of its wait for others or in another one, or has slept again without polling."""
    if before is None or now.elsewhere >= _MIN_ELSEWHERE:
        return True
    if before.waits_at and now.waits_at and before.waits_at != now.waits_at:
        return True
    return before.sleeps != now.sleeps and not before.polls and not now.polls


def _slow(waits: Sequence[Sequence[Look]]) -> HangVerdict | None:
    nodes = {one.rank: one.node for one in waits[-1][-1]}
    waited = dict.fromkeys(nodes, 0.0)
    for looks in waits:
        for look in looks:
            for one in look:
                waited[one.rank] += (one.sync + one.undecided) / len(looks)
    least = min(nodes, key=lambda rank: waited[rank])
    beside = [rank for rank in nodes if nodes[rank] == nodes[least]]
    candidates = [[least], beside] if 1 < len(beside) < len(nodes) else [[least]]
    for members in candidates:
        if _is_slow([_gap(looks, members) for looks in waits]):
            return _verdict(waits, members)
    return None


def _is_slow(gaps: Sequence[float]) -> bool:
    mean, error = statistics.fmean(gaps), statistics.stdev(gaps) / math.sqrt(len(gaps))
    return mean >= MIN_SHARE and mean >= MIN_ERRORS * error


def _gap(looks: Sequence[Look], members: Collection[int]) -> float:
    """Returns by how much each of the other ranks waited longer in one wait, for certain, than each of these."""
    return statistics.fmean(
        min(one.sync for one in look if one.rank not in members)
        - max(one.sync + one.undecided for one in look if one.rank in members)
        for look in looks
    )


def _verdict(waits: Sequence[Sequence[Look]], members: Collection[int]) -> HangVerdict:
    looks = [look for each in waits for look in each]
    own = [one for look in looks for one in look if one.rank in members]
    share = _median_sync(looks, members, is_member=False) - _median_sync(looks, members, is_member=True)
    (one, many), at = _doing(own)
    rank, node = own[0].rank, own[0].node
    if len(members) == 1:
        who = f"rank {rank} on node {node} is slow: the other ranks wait for it"
        return HangVerdict(Stillness.SLOW, f"{who} {share:.0%} of the time, while it {one}{at}", rank, node)
    who = f"node {node} is slow: the ranks of other nodes wait for its ranks"
    return HangVerdict(Stillness.SLOW, f"{who} {share:.0%} of the time, while these {many}{at}", node=node)


def _median_sync(looks: Sequence[Look], members: Collection[int], *, is_member: bool) -> float:
    return statistics.fmean(
        statistics.median(one.sync for one in look if (one.rank in members) is is_member) for look in looks
    )


def _doing(own: Sequence[RankPhases]) -> tuple[tuple[str, str], str]:
    """Returns what slow ranks do, of one and of many, and where."""
    data, compute = sum(one.data for one in own), sum(one.compute for one in own)
    phase = "data" if data > compute else "compute"
    seen = [one for one in own if one.phase == phase]
    (place, _), *_ = Counter(one.place for one in seen).most_common(1) or [("", 0)]
    is_asleep = phase == "compute" and sum(one.is_asleep for one in seen) * 2 > len(seen)
    return _ASLEEP if is_asleep else _DOING[phase], f" at {place}" if place else ""
