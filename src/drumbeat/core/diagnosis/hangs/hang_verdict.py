"""Judges from what each silent rank does whether the job hangs, and which rank is the cause.

What counts as silence is decided in `node/stacks/silence.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from drumbeat.core.diagnosis.hangs.activity import Activity, describe_wait
from drumbeat.core.diagnosis.hangs.waits import WaitKind
from drumbeat.model.plurals import name_ranks


class Stillness(StrEnum):
    """The explanation of a job's silence."""

    HUNG = "hung"
    """Nothing will continue by itself."""
    SLOW = "slow"
    """One rank works, and keeps the others waiting."""
    BUSY = "busy"
    """Ranks work."""
    WAITS = "waits"
    """Ranks wait for something outside of the job, which may come."""
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class HangVerdict:
    """What the silence is, in a sentence, and the rank that is the cause, if one is."""

    stillness: Stillness
    sentence: str = ""
    rank: int | None = None
    node: int | None = None
    is_certain: bool = False
    """Whether nothing from outside of the job can end the hang: only then may its ranks be ended."""
    silent_s: float = 0.0
    """How long the rank that is the cause has given no sign of work, or the rank that has done so for longest."""
    needs_time: bool = False
    """Whether a long step on the GPUs, or a large exchange, may explain the silence: a later look decides."""

    @property
    def is_hang(self) -> bool:
        """Whether it is a hang."""
        return self.stillness is Stillness.HUNG


_MAX_RANKS_NAMED = 4


def judge(activities: Sequence[Activity], left: Collection[int] = (), missing: Collection[int] = ()) -> HangVerdict:
    """Judges the ranks of a job. left: those that exited with code 0; missing: those that sent no facts."""
    ranks = sorted(activities, key=lambda one: one.rank)
    if not ranks:
        return HangVerdict(Stillness.UNKNOWN)
    rules = (_stopped, _swapped, _blocked, _working, _unanswered(missing), _file, _left_early(left), _odd, _together)
    for rule in rules:
        verdict = rule(ranks)
        if verdict is not None:
            is_on_device = any(one.is_on_device for one in ranks)
            is_certain = verdict.is_hang and not is_on_device and _is_certain(ranks, len(left))
            needs_time = is_on_device or verdict.rank is None
            silent_s = max((one.idle_s for one in ranks if verdict.rank in (one.rank, None)), default=0.0)
            silent_s = silent_s or max(one.idle_s for one in ranks)
            return replace(verdict, is_certain=is_certain, needs_time=needs_time, silent_s=silent_s)
    return HangVerdict(Stillness.WAITS)


def _is_certain(ranks: Sequence[Activity], left: int) -> bool:
    """Whether a rank is stopped, or each waits for other ranks or for a blocked worker of its own.

    What waits for a lock, a queue, a socket or a file may get something from a server's thread or from outside.
    """
    if any(one.is_stopped for one in ranks):
        return True
    return len(ranks) + left > 1 and all(
        (one.waits_for_ranks and not one.is_guess) or one.helper_kind is WaitKind.LOCK for one in ranks
    )


_Rule = Callable[[Sequence[Activity]], "HangVerdict | None"]


def _stopped(ranks: Sequence[Activity]) -> HangVerdict | None:
    odd = [one for one in ranks if one.is_stopped]
    if not odd:
        return None
    first = odd[0]
    what = f"{first.helper} (SIGSTOP)" if first.helper else f"is stopped (SIGSTOP){_at(first)}"
    return _by(Stillness.HUNG, first, f"{_subject(odd, first)} {what}{_others(ranks, odd)}")


def _swapped(ranks: Sequence[Activity]) -> HangVerdict | None:
    odd = [one for one in ranks if one.is_swapped]
    if not odd:
        return None
    what = "waits for its memory to come back from swap: the node has too little"
    return _by(Stillness.SLOW, odd[0], f"{_subject(odd, odd[0])} {what}{_others(ranks, odd)}")


def _working(ranks: Sequence[Activity]) -> HangVerdict | None:
    odd = [one for one in ranks if one.works]
    if not odd:
        return None
    waiting = [one for one in ranks if one.waits_for_ranks]
    if not waiting or len(odd) > max(len(waiting), 1):
        return HangVerdict(Stillness.BUSY)
    first = odd[0]
    doing = {"data": "loads data", "sync": "exchanges data"}.get(first.phase, "computes")
    return _by(Stillness.SLOW, first, f"{_subject(odd, first)} {doing}{_at(first)}{_others(ranks, odd)}")


def _blocked(ranks: Sequence[Activity]) -> HangVerdict | None:
    """Blames a rank that is blocked while all others wait for ranks, or for GPUs that seem busy."""
    odd = [one for one in ranks if one.is_blocked]
    others = [one for one in ranks if not one.is_blocked]
    if not odd or not any(one.works_by_gpu for one in others):
        return None
    if not all(one.works_by_gpu or one.waits_for_ranks for one in others):
        return None
    first, waiting = odd[0], [replace(one, works=False) for one in others]
    return _by(Stillness.HUNG, first, f"{_subject(odd, first)} {_doing(first)}{_others(waiting, ())}")


def _unanswered(missing: Collection[int]) -> _Rule:
    return lambda _: HangVerdict(Stillness.UNKNOWN) if missing else None


def _file(ranks: Sequence[Activity]) -> HangVerdict | None:
    kinds = (WaitKind.FILE, WaitKind.FILE_LOCK)
    odd = [one for one in ranks if (one.wait and one.wait.kind in kinds) or "file" in one.helper]
    if not odd or (not _waiting(ranks) and len(ranks) > 1 and len(odd) < len(ranks)):
        return None
    return _by(Stillness.HUNG, odd[0], f"{_subject(odd, odd[0])} {_doing(odd[0])}{_others(ranks, odd)}")


def _left_early(left: Collection[int]) -> _Rule:
    def rule(ranks: Sequence[Activity]) -> HangVerdict | None:
        if not left or not all(one.waits_for_ranks for one in ranks):
            return None
        whom = name_ranks(sorted(left), _MAX_RANKS_NAMED)
        sentence = f"{whom} ended with exit code 0{_others(ranks, ())}"
        return HangVerdict(Stillness.HUNG, sentence, rank=min(left))

    return rule


def _odd(ranks: Sequence[Activity]) -> HangVerdict | None:
    """Some ranks wait for others, which don't wait for them."""
    odd = [one for one in ranks if not one.waits_for_ranks]
    if not odd or len(odd) == len(ranks):
        return None
    first = odd[0]
    return _by(Stillness.HUNG, first, f"{_subject(odd, first)} {_doing(first)}{_others(ranks, odd)}")


def _together(ranks: Sequence[Activity]) -> HangVerdict | None:
    """All wait for one another, or each for itself."""
    if all(one.waits_for_ranks for one in ranks):
        return _all_wait(ranks)
    blocked = [one for one in ranks if _is_deadlocked(one)]
    if len(blocked) < len(ranks):
        return None
    return _by(Stillness.HUNG, ranks[0], f"{_subject(ranks, ranks[0])} {_doing(ranks[0])}, and nothing else happens")


def _is_deadlocked(one: Activity) -> bool:
    if one.is_parked or one.wait is None:
        return False
    return one.wait.kind is WaitKind.LOCK or (one.wait.kind is WaitKind.DATA and bool(one.helper))


def _all_wait(ranks: Sequence[Activity]) -> HangVerdict:
    on_gpu = [one for one in ranks if one.wait and one.wait.kind is WaitKind.DEVICE]
    others = [one for one in ranks if one not in on_gpu]
    if on_gpu and others:
        return _some_on_gpus(on_gpu, others)
    names = Counter(one.wait.name for one in ranks if one.wait and one.wait.kind is WaitKind.COLLECTIVE)
    if len(names) > 1:
        least = min(names, key=lambda name: (names[name], -_first(ranks, name).rank))
        odd = _first(ranks, least)
        others = (f"rank {one.rank} in {name}{_at(one)}" for name in names if (one := _first(ranks, name)))
        return _by(Stillness.HUNG, odd, f"the ranks wait in different collectives: {', '.join(others)}")
    if len(ranks) == 1:
        what = (
            "no other rank will come" if ranks[0].wait and ranks[0].wait.kind is not WaitKind.DEVICE else "it is silent"
        )
        return _by(Stillness.HUNG, ranks[0], f"rank {ranks[0].rank} {_doing(ranks[0])}, and {what}")
    places = Counter(one.place for one in ranks)
    least = min(places, key=lambda place: places[place])
    if len(places) > 1 and names:
        one, other = next(r for r in ranks if r.place == least), next(r for r in ranks if r.place != least)
        sentence = (
            f"the ranks wait at different lines: rank {one.rank} {_doing(one)}, rank {other.rank} {_doing(other)}"
        )
        return _by(Stillness.HUNG, one, sentence)
    sentence = f"every rank {_doing(ranks[0])}, and none continues: check the network between the nodes"
    return HangVerdict(Stillness.HUNG, sentence)


def _some_on_gpus(on_gpu: Sequence[Activity], others: Sequence[Activity]) -> HangVerdict:
    """Some ranks wait for their GPUs, where a kernel never ends, or waits for a collective that the others left out."""
    first, other = on_gpu[0], others[0]
    if len(on_gpu) <= len(others) and all(_has_passed(one, gpu) for one in others for gpu in on_gpu):
        return _by(Stillness.HUNG, first, f"{_subject(on_gpu, first)} {_doing(first)}{_others(others, ())}")
    at = "at different lines" if first.place != other.place else "for different things"
    sentence = f"the ranks wait {at}: rank {first.rank} {_doing(first)}, rank {other.rank} {_doing(other)}"
    return HangVerdict(Stillness.HUNG, sentence)


def _has_passed(one: Activity, gpu: Activity) -> bool:
    """Whether a rank is in a collective on the CPU behind the line where another one waits for its GPU."""
    is_on_cpu = not one.is_polling or (one.wait is not None and one.wait.name.startswith("MPI_"))
    (file, _, line), (at_file, _, at_line) = one.place.rpartition(":"), gpu.place.rpartition(":")
    is_behind = bool(file) and file == at_file and one.function == gpu.function and int(line) > int(at_line)
    return is_on_cpu and is_behind and one.wait is not None and one.wait.kind is WaitKind.COLLECTIVE


def _first(ranks: Sequence[Activity], name: str) -> Activity:
    return next(one for one in ranks if one.wait and one.wait.name == name)


def _waiting(ranks: Sequence[Activity]) -> list[Activity]:
    return [one for one in ranks if one.waits_for_ranks]


# --- words ------------------------------------------------------------------------------------------------------
def _by(stillness: Stillness, odd: Activity, sentence: str) -> HangVerdict:
    return HangVerdict(stillness, sentence, odd.rank, odd.node)


def _subject(odd: Sequence[Activity], first: Activity) -> str:
    where = f"rank {first.rank} on node {first.node}"
    return (
        f"{where} (and {name_ranks([one.rank for one in odd if one is not first], _MAX_RANKS_NAMED)})"
        if len(odd) > 1
        else where
    )


def _doing(one: Activity) -> str:
    if one.wait is None:
        return f"does nothing that can be seen{_at(one)}{f' ({one.problem})' if one.problem else ''}"
    about = f": {one.helper}" if one.helper else ""
    return f"{describe_wait(one.wait)}{_at(one)}{about}"


def _at(one: Activity) -> str:
    return f" at {one.place}" if one.place else ""


def _others(ranks: Sequence[Activity], odd: Collection[Activity]) -> str:
    """Says what the ranks do that wait for the odd ones."""
    waiting = [one for one in ranks if one not in odd and one.waits_for_ranks]
    if not waiting:
        return ""
    first = waiting[0]
    verb = "waits" if len(waiting) == 1 else "wait"
    whom = name_ranks([one.rank for one in waiting], _MAX_RANKS_NAMED)
    return f", while {whom} {verb}{_doing(first).removeprefix('waits')}"
