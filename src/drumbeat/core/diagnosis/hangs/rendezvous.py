"""Judges whether the ranks of a round hang at the rendezvous: some wait there for others that don't arrive.

A rank that is busy before the rendezvous, because it imports, compiles or reads files, is on its way to it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from drumbeat.core.diagnosis.hangs.activity import Activity, describe_activity
from drumbeat.core.diagnosis.hangs.waits import WaitKind
from drumbeat.model.plan import Rank
from drumbeat.model.plurals import name_ranks

MAX_RANKS_NAMED = 4


class RendezvousState(StrEnum):
    """How far the ranks of a round are with their rendezvous."""

    OPEN = "open"
    """Ranks may still be on their way to it, or don't hold one."""
    OVER = "over"
    """A rank is past it."""
    LATE = "late"
    """Ranks wait in it, and the others have done nothing for the job's `rendezvous_timeout_s`, but may yet come."""
    STUCK = "stuck"
    """As late, and the others won't come, or the job itself set the time."""


@dataclass(frozen=True)
class RendezvousVerdict:
    """How far the rendezvous is; where it is late or stuck, in a sentence, with the first rank that is the cause."""

    state: RendezvousState
    sentence: str = ""
    rank: int | None = None
    node: int | None = None
    silent_s: float = 0.0
    """How long the ranks that are the cause have given no sign of work."""


@dataclass(frozen=True)
class Roll:
    """The ranks of a round that are expected at the rendezvous."""

    ranks: Sequence[Rank]
    """All workers."""
    hosts: Sequence[str]
    """The machine of each node, "" = unknown."""
    activities: Sequence[Activity]
    """What is known of workers that run."""
    left: Collection[int] = ()
    """Workers that exited with code 0."""
    there_s: Mapping[int, float] = field(default_factory=dict[int, float])
    """Rank to how long it has been seen in the rendezvous."""


@dataclass(frozen=True)
class RendezvousLimit:
    """How long ranks may wait in the rendezvous."""

    timeout_s: float
    is_strict: bool = False
    """Whether the round also ends where absent ranks may still arrive."""


def judge(roll: Roll, limit: RendezvousLimit) -> RendezvousVerdict:
    """Judges the rendezvous of a round. A rank that sent no facts may be on its way."""
    timeout_s = limit.timeout_s
    ranks = sorted(roll.activities, key=lambda one: one.rank)
    if any(one.waits_for_ranks and not one.is_at_start for one in ranks):
        return RendezvousVerdict(RendezvousState.OVER)
    arrived = [one for one in ranks if one.is_at_start and not one.is_stopped]
    absent = [one for one in ranks if one not in arrived]
    is_known = {one.rank for one in ranks}.union(roll.left).issuperset(one.rank for one in roll.ranks)
    if not arrived or not is_known or any(_is_on_its_way(one, timeout_s) for one in absent):
        return RendezvousVerdict(RendezvousState.OPEN)
    if absent or roll.left:
        return _incomplete(roll, arrived, absent, limit)
    # None is missing, so each of those in it must have stood still, or polled in one place, for as long.
    if any(_waited_s(one, roll) < timeout_s for one in arrived):
        return RendezvousVerdict(RendezvousState.OPEN)
    sentence = (
        f"{_TIMED_OUT.format(timeout_s)}every rank {describe_activity(arrived[0])}, and none continues: check that "
    )
    sentence += "node 0 can be reached from the others"
    return RendezvousVerdict(RendezvousState.STUCK, sentence, silent_s=max(one.idle_s for one in arrived))


def _is_on_its_way(one: Activity, timeout_s: float) -> bool:
    """Whether an absent rank may be about to arrive: it works, reads files, or did so lately."""
    reads = one.wait is not None and one.wait.kind in (WaitKind.FILE, WaitKind.FILE_LOCK)
    return one.works or one.is_swapped or reads or one.idle_s < timeout_s


def _waited_s(one: Activity, roll: Roll) -> float:
    """Returns how long a rank has waited in the rendezvous; one that polls is never idle."""
    return roll.there_s.get(one.rank, 0.0) if one.is_polling else one.idle_s


def _never_comes(one: Activity) -> bool:
    """Whether nothing outside of the job can release an absent rank: it is stopped, or waits for a lock of its own."""
    helper_ends_it = one.helper_kind not in (None, WaitKind.LOCK)
    is_locked = one.wait is not None and one.wait.kind is WaitKind.LOCK and not one.is_guess
    return one.is_stopped or (is_locked and not one.is_parked and not helper_ends_it)


def _incomplete(
    roll: Roll, arrived: Sequence[Activity], absent: Sequence[Activity], limit: RendezvousLimit
) -> RendezvousVerdict:
    """Says which ranks are absent. One that never comes is enough to be stuck, and is then the cause."""
    node_of = {one.rank: one.node for one in roll.ranks}
    doing = {one.rank: describe_activity(one) for one in absent} | dict.fromkeys(roll.left, "ended with exit code 0")
    never = {one.rank for one in absent if _never_comes(one)}.union(roll.left)
    state = RendezvousState.STUCK if never or limit.is_strict else RendezvousState.LATE
    first = min(never or doing)
    named = [f"{_subject(rank, node_of[rank], roll.hosts)} {doing[rank]}" for rank in sorted(doing)[:MAX_RANKS_NAMED]]
    if len(doing) == 1:
        whom = f"{_subject(first, node_of[first], roll.hosts)} has not arrived: it {doing[first]}"
    else:
        more = len(doing) - len(named)
        whom = f"{len(doing)} ranks have not arrived: {', '.join(named)}{f', and {more} more' if more else ''}"
    verb = "waits" if len(arrived) == 1 else "wait"
    waiting = name_ranks([one.rank for one in arrived], MAX_RANKS_NAMED)
    waiting += f" {verb}{describe_activity(arrived[0]).removeprefix('waits')}"
    head, tail = (_LATE, _GOES_ON) if state is RendezvousState.LATE else (_TIMED_OUT, "")
    sentence = f"{head.format(limit.timeout_s)}{whom}, while {waiting}{tail}"
    silent_s = max((one.idle_s for one in absent), default=0.0)
    return RendezvousVerdict(state, sentence, first, node_of[first], silent_s)


# --- words ------------------------------------------------------------------------------------------------------
_TIMED_OUT = "the rendezvous timed out after {:g} s: "
_LATE = "the rendezvous is incomplete after {:g} s: "
_GOES_ON = "; the round continues: with `rendezvous_timeout_s` in the job file, the ranks would start again"


def _subject(rank: int, node: int, hosts: Sequence[str]) -> str:
    host = hosts[node] if node < len(hosts) else ""
    return f"rank {rank} on node {node}{f' ({host})' if host else ''}"
