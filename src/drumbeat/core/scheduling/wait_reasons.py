"""Why a queued job can't start now or ever, and who holds what it needs: pure."""

from __future__ import annotations

from bisect import insort
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from drumbeat.core.scheduling.queued_job import LACKS_SHARE, Placement, QueuedJob
from drumbeat.core.scheduling.quota_balances import Balances
from drumbeat.core.scheduling.resource_needs import Need
from drumbeat.core.scheduling.slot_fitting import (
    FreeSlots,
    MachineCapacity,
    SlotAllocation,
    crowd,
    fit,
    fits_when_empty,
    is_unseen,
)
from drumbeat.model.plurals import counted
from drumbeat.model.states import Reason

MAX_HOLDERS = 3
"""So many of the jobs that hold slots are named in a sentence."""
_MAX_TRIED = 50
"""Of more jobs than these it isn't tried whose end is enough for the next one."""


def describe_misfit(job: QueuedJob, rooms: Sequence[MachineCapacity], compute: str) -> str:
    """Returns why a job will never fit on these machines; "" = it fits, or that isn't known yet."""
    if is_unseen(rooms):
        return ""
    if job.need.alone and (excess := crowd(job.need, rooms)):
        return f"{excess} of {compute}"
    if fits_when_empty(job.need, rooms):
        return ""
    one = replace(job.need, nodes=1)
    if len(rooms) > 1 and not any(fits_when_empty(one, [room]) for room in rooms):
        cpus, gpus = max(r.cpus for r in rooms), max(len(r.gpus) for r in rooms)
        each = _size(cpus, gpus)
        return f"the job needs {format_amount(one)} on one machine; those of {compute} have at most {each} each"
    cpus, gpus = sum(r.cpus for r in rooms), sum(len(r.gpus) for r in rooms)
    return f"the job needs {format_amount(job.need)}; {compute} has {_size(cpus, gpus)} in all"


def wait_for_share(job: QueuedJob, own: Sequence[MachineCapacity], compute: str) -> Placement | None:
    """A word for a job that the machines with its share can't hold, however little they have to do; None = they can.

    It never becomes the first one that is blocked: no other job may wait for it.
    """
    if not job.lacking:
        return None
    able = [room if room.unusable == LACKS_SHARE else replace(room, unusable="") for room in own]
    if fit(job.need, able, ()):
        return None
    sentence = f"{job.lack.removesuffix('.')}; the other machines of {compute} can't hold the job"
    if is_unseen([room for room in own if room.unusable != LACKS_SHARE]):
        return Placement(job.job, reason=Reason.WAITING_FOR_SLOTS, sentence=f"{sentence} as far as they were seen")
    return Placement(job.job, never=True, lacks_share=True, sentence=sentence)


def wait_for_machines(job: QueuedJob, own: Sequence[MachineCapacity], compute: str) -> Placement | None:
    """A word for a job that can't start before a missing machine is back, however little the others have to do.

    It never becomes the first one that is blocked, either. None = it needs none of them.
    """
    others = [room for room in own if not room.is_missing]
    if len(others) == len(own) or is_unseen(others) or fit(job.need, able := expected_machines(own), ()):
        return None
    missing = "; ".join(f"{room.name} can't be used: {room.unusable}" for room in able if room.unusable)
    return Placement(
        job.job,
        reason=Reason.WAITING_FOR_SLOTS,
        sentence=f"needs {format_need(job)} of {compute}, which its usable machines can't hold; {missing}; "
        "later jobs may start first",
        is_unsure=is_unseen(own) and not fits_when_empty(job.need, own),
    )


def expected_machines(own: Sequence[MachineCapacity]) -> Sequence[MachineCapacity]:
    """The machines as they will be: those that can't be used for the moment count as if they could."""
    if not any(room.unusable for room in own):
        return own
    return [
        room if room.unusable in ("", LACKS_SHARE) or room.is_missing else replace(room, unusable="") for room in own
    ]


def describe_use_order(balances: Balances, job: QueuedJob, first: QueuedJob) -> str:
    """By which numbers another user's job of the same priority comes first."""
    return balances.describe(job.payer.user, first.payer.user) if job.priority == first.priority else ""


class SlotUse(NamedTuple):
    """What is free of a job's machines, and who holds the rest."""

    free: FreeSlots
    holding: Sequence[SlotAllocation]
    holders: SlotHolders


def describe_need_for_slots(job: QueuedJob, rooms: Sequence[MachineCapacity], held: SlotUse, compute: str) -> str:
    """Returns what the next job needs, what is free of that, and who holds the rest."""
    usable, free = [room for room in rooms if not room.unusable], held.free
    left, whole = free.cpus, sum(room.cpus for room in usable)
    free_gpus, gpus = free.gpus, sum(len(room.gpus) for room in usable)
    is_full = not left and not (job.need.gpus and free_gpus)
    of = f"{left} of {counted(whole, 'CPU slot')}"
    if job.need.gpus:
        of += f" and {free_gpus} of {counted(gpus, 'GPU')} are free"
    else:
        of += " is free" if left == 1 else " are free"
    who = held.holders.describe()
    holders = f"; {'all' if is_full else 'the others'} are held by {who}" if held.holders.count else ""
    unusable = "".join(f"; {room.name} can't be used: {room.unusable}" for room in rooms if room.unusable)
    start = describe_start(job, free, held.holding)
    return (
        f"needs {format_need(job)} of {compute}, where {of}{holders}; it is next"
        f"{f' and starts {start}' if start else ''}{unusable}"
    )


def format_need(job: QueuedJob) -> str:
    """Returns what a job needs; for an elastic one the least with which it starts."""
    what = "all CPU slots" if job.need.alone else format_amount(job.need)
    return f"at least {what}" if job.need.is_elastic and job.need.nodes == job.need.min_nodes else what


def describe_start(job: QueuedJob, free: FreeSlots, held: Sequence[SlotAllocation]) -> str:
    """Whose end is enough for the next job to start; "" = that isn't known, or would be a long list."""
    names = sorted({one.job for one in held if one.slots} - {job.job})
    if len(names) > _MAX_TRIED:
        return ""

    def fits_without(ending: Collection[str]) -> bool:
        return free.fits_after(job.need, [one for one in held if one.job in ending])

    enough = [name for name in names if fits_without({name})]
    if len(names) > 1 and enough == names:
        return "when one of them ends"
    if enough or not 1 < len(names) <= MAX_HOLDERS or not fits_without(names):
        return f"when {' or '.join(enough)} ends" if 0 < len(enough) <= MAX_HOLDERS else ""
    is_latest = any(fits_without({*names} - {name}) for name in names)
    return f"{'at the latest ' if is_latest else ''}when they have ended"


class SlotHolders:
    """The jobs that hold slots, in words: those that can't go on first, with the reason."""

    def __init__(self, held: Iterable[SlotAllocation]) -> None:
        self._obstacles = {one.job: one.obstacle for one in held if one.slots}
        self._order = sorted((not obstacle, job) for job, obstacle in self._obstacles.items())

    def add(self, holding: SlotAllocation) -> None:
        """Adds a job that has been given slots, and waits for nothing."""
        if holding.job in self._obstacles:
            self._order.remove((not self._obstacles[holding.job], holding.job))
        self._obstacles[holding.job] = ""
        insort(self._order, (True, holding.job))

    def copy(self) -> SlotHolders:
        """The same, to be changed on its own."""
        copied = SlotHolders(())
        copied._obstacles, copied._order = dict(self._obstacles), [*self._order]
        return copied

    @property
    def count(self) -> int:
        """How many they are."""
        return len(self._order)

    def describe(self) -> str:
        """Returns the first of them by name, and how many there are."""
        first = [name for _, name in self._order[:MAX_HOLDERS]]
        shown = [
            f"{name} ({obstacle}; see drumbeat show {name})" if (obstacle := self._obstacles[name]) else name
            for name in first
        ]
        more = len(self._order) - len(first)
        return f"{', '.join(shown)} and {more} more" if more else ", ".join(shown) or "no job"


def format_amount(need: Need) -> str:
    """Returns what a job needs: `2 CPU slots and 1 GPU on each of 4 nodes`."""
    each = _size(need.cpus, need.gpus) if need.gpus else counted(need.cpus, "CPU slot")
    return each if need.nodes == 1 else f"{each} on each of {need.nodes} nodes"


def _size(cpus: int, gpus: int) -> str:
    return f"{counted(cpus, 'CPU slot')} and {counted(gpus, 'GPU')}"
