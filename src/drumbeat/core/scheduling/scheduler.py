"""Who starts next, and why the others wait: pure.

Jobs are looked at by priority, then by what their persons have used recently, then by age. A gang gets all of its slots
or none. A job that comes later may pass the first one that is blocked only where that can't delay it: by the time
limits of the jobs that run (EASY backfilling: Lifka, JSSPP 1995), or because it leaves all slots that the first one,
and those behind it that could run beside it, could come to need. A job that waits for a missing machine doesn't hold up
the others. A job that waits for a quota holds up only those that come later and count on the same limit. How use and
age count is in `fair_share.py`; what is known of each waiting job comes from `server/loop/waiting_jobs.py`. What keeps
all jobs of a compute from starting is asked for before, in `server/loop/placer.py`; when a machine is missing, in
`server/computes/compute_state.py`; the reasons of waiting are in `reason_table.py`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial

from drumbeat.core.scheduling.quota_balances import NO_BALANCES, Balances
from drumbeat.core.scheduling.quotas import Allowances, Amount, Payer
from drumbeat.core.scheduling.resource_needs import Need, Slot
from drumbeat.core.scheduling.slot_fitting import (
    Holding,
    MachineCapacity,
    capacity,
    crowd,
    fit,
    fits_when_empty,
    free_of,
    is_unseen,
)
from drumbeat.model.plurals import counted, list_first
from drumbeat.model.states import Reason

_LACKS = "it was given up for this job"
_QUEUED = (Reason.WAITING_FOR_SLOTS, Reason.WAITING_FOR_TURN)
MAX_HOLDERS = 3
"""So many of the jobs that hold slots are named in a sentence."""
_MAX_TRIED = 50
"""Of more jobs than these it isn't tried whose end is enough for the next one."""


@dataclass(frozen=True)
class Waiting:
    """A job in the queue. lasts: its time limit with its grace, if it has one.

    avoided: machines that it has lost nodes on just now: the engine may not know yet that they are gone.
    """

    job: str
    need: Need
    priority: int
    submitted_at: datetime
    lasts: timedelta | None = None
    avoided: tuple[str, ...] = ()
    payer: Payer = field(default_factory=Payer)
    lacking: tuple[str, ...] = ()
    """Machines that lack a share: none of its nodes goes there."""
    lack: str = ""
    """What the last of them lacked, in a sentence."""
    use: float = 0.0
    """Slot-hours that count against its person; 0 once its age is `PATIENCE` in fair_share.py."""
    is_resized: bool = False
    """It is an elastic job between two attempts: it comes first, so that it keeps the nodes that it had."""

    growth: int = 0
    """The number of nodes for which an elastic job has ended its round, 0 = it lost some."""
    kept: int = 0
    """How many nodes of its last attempt an elastic job has not lost."""

    @property
    def least(self) -> Waiting:
        """The job with the fewest nodes with which it can start."""
        return replace(self, need=self.need.least) if self.need.is_elastic else self

    @property
    def aim(self) -> Need:
        """The need with which an elastic job waits for the slots of its last attempt."""
        return replace(self.need, nodes=max(self.need.nodes, self.growth))

    @property
    def rank(self) -> tuple[bool, int, float, datetime, str]:
        """Its place in the queue: by priority, then by recent use, then by age."""
        return not self.is_resized, -self.priority, self.use, self.submitted_at, self.job


@dataclass(frozen=True)
class Placement:
    """What placement says of a job: slots, or why it waits. never: it will never fit.

    is_unsure: nobody knows yet whether it will, for a machine was never seen. lacks_share: it will not, for too few
    machines have a share.
    """

    job: str
    slots: tuple[Slot, ...] = ()
    reason: Reason | None = None
    sentence: str = ""
    never: bool = False
    is_unsure: bool = False
    lacks_share: bool = False
    least: int = 0
    """The fewest nodes with which an elastic job may start; 0 = its number of nodes is fixed."""


def place(  # noqa: PLR0913 - the queue, what there is, and how the persons stand
    queue: Sequence[Waiting],
    rooms: Sequence[MachineCapacity],
    held: Sequence[Holding],
    now: datetime,
    *,
    compute: str,
    balances: Balances = NO_BALANCES,
    has_spare: bool = True,
) -> list[Placement]:
    """A word for every job of the queue, in the order in which they are served.

    has_spare: an elastic job that has the queue to itself may have more nodes than it asks for.
    """
    holding, allowances = list(held), balances.allowances
    blocked: Waiting | None = None
    kept: tuple[Holding, ...] = ()
    behind: dict[int, str] = {}
    said: list[Placement] = []
    for asked in sorted(queue, key=lambda one: one.rank):
        job = asked.least
        never, own, reserve = _never(job, rooms, compute), rooms_of(job, rooms), Holding("", ())
        fits = [] if never else _fits(asked, own, holding, has_spare=has_spare and len(queue) == 1)
        if fits and blocked:
            reserve = _reserve(kept, rooms, holding)
            fits += _fits(asked, own, [*holding, reserve], has_spare=False)
        may_start = partial(
            _may_start, job, blocked=blocked, rooms=rooms, held=holding, reserve=reserve, allowances=allowances, now=now
        )
        slots = next(filter(may_start, fits), fits[-1] if fits else None)
        takes = taken_by(job.need, slots, rooms)
        if never:
            said.append(Placement(job.job, never=True, sentence=never))
        elif wait_for_machine := _lack(job, own, compute) or _missing(job, own, compute):
            said.append(wait_for_machine)
        elif wait := allowances.wait(job.payer, takes):
            said.append(Placement(job.job, reason=Reason.WAITING_FOR_QUOTA, sentence=wait.sentence))
            allowances = allowances.behind(wait)
        elif slots and may_start(slots):
            said.append(Placement(job.job, slots))
            holding.append(_holding(job, slots, now))
            allowances = allowances.taken(job.job, job.payer, takes)
        else:
            if blocked is None:
                blocked, allowances = job, allowances.reserved_for(job.job, job.payer, takes)
                reason, sentence = (
                    Reason.WAITING_FOR_SLOTS,
                    _needs(replace(asked, need=asked.aim) if _is_ending(job, held) else job, own, holding, compute),
                )
            else:
                reason = Reason.WAITING_FOR_TURN
                place = 1 + sum(one.reason in _QUEUED for one in said)
                sentence = (
                    f"number {place} in the queue of {compute}: {blocked.job} is next, and the slots are held by "
                    f"{_holders(holding)}{_describe_use(balances, job, blocked)}"
                )
                sentence += _describe_wait_behind(blocked, rooms, holding, behind) if slots else ""
            if not kept or fit(job.need, _expected(own), kept):  # It waits for no blocked job.
                kept = (_with_slots(kept, _possible_slots(job, rooms, kept)),)
            is_unsure = is_unseen(rooms) and not fits_when_empty(job.need, rooms)
            said.append(Placement(job.job, reason=reason, sentence=sentence, is_unsure=is_unsure))
    return said


def _holding(job: Waiting, slots: Sequence[Slot] | None, now: datetime) -> Holding:
    return Holding(job.job, tuple(slots or ()), now + job.lasts if job.lasts else None)


def _may_start(  # noqa: PLR0913 - as `place`
    job: Waiting,
    slots: tuple[Slot, ...],
    *,
    blocked: Waiting | None,
    rooms: Sequence[MachineCapacity],
    held: Sequence[Holding],
    reserve: Holding,
    allowances: Allowances,
    now: datetime,
) -> bool:
    """Whether the job may start with these slots now."""
    if allowances.wait(job.payer, taken_by(job.need, slots, rooms)):
        return False
    wanted = _holding(job, slots, now)
    return blocked is None or _spares(wanted, reserve, rooms, held) or _delays_nobody(wanted, blocked, rooms, held)


def _fits(
    job: Waiting, rooms: Sequence[MachineCapacity], held: Sequence[Holding], *, has_spare: bool
) -> list[tuple[Slot, ...]]:
    """Slots with which the job could start now, those with the most nodes first; several for elastic jobs only.

    Until its last attempt has given its slots back, an elastic job doesn't begin with fewer nodes than it asks for, or
    than it has ended its round for.
    """
    sizes: Sequence[Need] = [job.need]
    if job.need.is_elastic:
        least = job.aim.nodes if _is_ending(job, held) else 0
        sizes = [one for one in sizes_of(job, rooms, has_spare=has_spare) if one.nodes >= least]
    elsewhere = [slots for size in sizes if (slots := _fit_elsewhere(replace(job, need=size), rooms, held))]
    return elsewhere or [slots for size in sizes if (slots := fit(size, rooms, held))]


def _is_ending(job: Waiting, held: Sequence[Holding]) -> bool:
    """Whether an earlier attempt of the job still holds slots."""
    return any(one.job == job.job and one.slots for one in held)


def sizes_of(job: Waiting, rooms: Sequence[MachineCapacity], *, has_spare: bool) -> tuple[Need, ...]:
    """The sizes that an elastic job may have, the largest first.

    It has more nodes than it asks for only where that puts no two of them on the same machine.
    """
    need = job.need
    largest = need.max_nodes if has_spare else max(need.nodes, job.growth or job.kept)
    return need.sizes(largest if need.nodes > len(rooms) else min(largest, len(rooms)))


def rooms_of(job: Waiting, rooms: Sequence[MachineCapacity]) -> Sequence[MachineCapacity]:
    """The machines as this job may use them."""
    if not job.lacking:
        return rooms
    return [replace(room, unusable=_LACKS) if room.name in job.lacking else room for room in rooms]


def _lack(job: Waiting, own: Sequence[MachineCapacity], compute: str) -> Placement | None:
    """A word for a job that the machines with its share can't hold, however little they have to do; None = they can.

    It never becomes the first one that is blocked: no other job may wait for it.
    """
    able = [room if room.unusable == _LACKS else replace(room, unusable="") for room in own]
    if not job.lacking or fit(job.need, able, ()):
        return None
    sentence = f"{job.lack.removesuffix('.')}; the other machines of {compute} can't hold the job"
    if is_unseen([room for room in own if room.unusable != _LACKS]):
        return Placement(job.job, reason=Reason.WAITING_FOR_SLOTS, sentence=f"{sentence} as far as they were seen")
    return Placement(job.job, never=True, lacks_share=True, sentence=sentence)


def _missing(job: Waiting, own: Sequence[MachineCapacity], compute: str) -> Placement | None:
    """A word for a job that can't start before a missing machine is back, however little the others have to do.

    It never becomes the first one that is blocked, either. None = it needs none of them.
    """
    others = [room for room in own if not room.is_missing]
    if len(others) == len(own) or is_unseen(others) or fit(job.need, able := _expected(own), ()):
        return None
    missing = "; ".join(f"{room.name} can't be used: {room.unusable}" for room in able if room.unusable)
    return Placement(
        job.job,
        reason=Reason.WAITING_FOR_SLOTS,
        sentence=f"needs {_format_need(job)} of {compute}, which its usable machines can't hold; {missing}; "
        "later jobs may start first",
        is_unsure=is_unseen(own) and not fits_when_empty(job.need, own),
    )


def _expected(own: Sequence[MachineCapacity]) -> list[MachineCapacity]:
    """The machines as they will be: those that can't be used for the moment count as if they could."""
    return [room if room.unusable in ("", _LACKS) or room.is_missing else replace(room, unusable="") for room in own]


def taken_by(need: Need, slots: Sequence[Slot] | None, rooms: Sequence[MachineCapacity]) -> Amount:
    """What a job takes of quotas: its slots, or what it would have."""
    if slots:
        return Amount(sum(slot.cpus for slot in slots), sum(len(slot.gpus) for slot in slots))
    cpus = sum(room.cpus for room in rooms if room.takes(need)) if need.alone else need.nodes * need.cpus
    return Amount(cpus, need.nodes * need.gpus)


def _describe_use(balances: Balances, job: Waiting, first: Waiting) -> str:
    """By which numbers another person's job of the same priority comes first."""
    return balances.describe(job.payer.user, first.payer.user) if job.priority == first.priority else ""


def _fit_elsewhere(job: Waiting, rooms: Sequence[MachineCapacity], held: Sequence[Holding]) -> tuple[Slot, ...] | None:
    """Slots on none of the machines that the job avoids."""
    if not job.avoided:
        return None
    others = [replace(room, unusable="lost") if room.name in job.avoided else room for room in rooms]
    return fit(job.need, others, held)


def _delays_nobody(wanted: Holding, first: Waiting, rooms: Sequence[MachineCapacity], held: Sequence[Holding]) -> bool:
    """Whether the first blocked job starts no later if these slots are taken now."""
    rooms = rooms_of(first, rooms)
    start = _earliest(first.need, rooms, held)
    if start is None:
        return False
    if wanted.until is not None and wanted.until <= start:
        return True
    still_held = [h for h in held if h.until is None or h.until > start]
    return fit(first.need, rooms, [*still_held, wanted]) is not None


def _possible_slots(job: Waiting, rooms: Sequence[MachineCapacity], kept: Sequence[Holding]) -> tuple[Slot, ...]:
    """The most that a job could take of each machine when those that run have ended. kept: of the blocked before it."""
    need, left = job.need, free_of(rooms, kept)
    if need.alone:
        return tuple(Slot(0, room.name, room.cpus, room.gpus) for room in rooms)
    on_one = 1 if need.nodes <= len(rooms) else need.nodes
    able = [left[room.name] for room in rooms_of(job, rooms) if room.unusable != _LACKS]
    nodes = [(room, min(on_one, capacity(room, need))) for room in able]
    return tuple(
        Slot(0, room.name, count * need.cpus, room.gpus[: count * need.gpus]) for room, count in nodes if count > 0
    )


def _with_slots(kept: Sequence[Holding], more: Sequence[Slot]) -> Holding:
    """What is kept for blocked jobs, with the slots of another one: one for each machine and number of CPUs a GPU."""
    sums: dict[tuple[str, float], Slot] = {}
    for slot in (*(slot for one in kept for slot in one.slots), *more):
        key = slot.machine, _cpus_per_gpu(slot)
        before = sums.get(key, Slot(0, slot.machine, 0))
        sums[key] = Slot(0, slot.machine, before.cpus + slot.cpus, before.gpus + slot.gpus)
    return Holding("", tuple(sums.values()))


def _cpus_per_gpu(slot: Slot) -> float:
    return slot.cpus / len(slot.gpus) if slot.gpus else math.inf


def _reserve(kept: Sequence[Holding], rooms: Sequence[MachineCapacity], held: Sequence[Holding]) -> Holding:
    """What is kept for blocked jobs of what is free now.

    Whichever GPU a job takes, a blocked one may have any other. A GPU that is held now comes free with the CPU slots
    of its holder, so only what a blocked job needs beyond these is kept.
    """
    free = free_of(rooms, held)
    given_back: dict[str, float] = {}
    for slot in (slot for one in held for slot in one.slots if slot.gpus):
        given_back[slot.machine] = min(given_back.get(slot.machine, math.inf), _cpus_per_gpu(slot))
    mine: dict[str, list[Slot]] = {}
    for slot in (slot for one in kept for slot in one.slots):
        mine.setdefault(slot.machine, []).append(slot)
    slots: list[Slot] = []
    for machine, wanted in mine.items():
        gpus = free[machine].gpus
        each = sorted((_cpus_per_gpu(slot) for slot in wanted for _ in slot.gpus), reverse=True)
        now, later = each[: len(gpus)], [max(0.0, one - given_back.get(machine, 0.0)) for one in each[len(gpus) :]]
        beside_gpus = math.ceil(round(sum(now) + sum(later), 6))
        cpus = beside_gpus + sum(slot.cpus for slot in wanted if not slot.gpus)
        slots.append(Slot(0, machine, cpus, gpus[: len(each)]))
    return Holding("", tuple(slots))


def _spares(wanted: Holding, reserve: Holding, rooms: Sequence[MachineCapacity], held: Sequence[Holding]) -> bool:
    """Whether these slots leave all that is kept for blocked jobs: they start no later, whichever job ends first."""
    spare, left = free_of(rooms, [*held, reserve]), free_of(rooms, [*held, reserve, wanted])
    return all(
        (left[slot.machine].cpus >= 0 or not slot.cpus) and {*slot.gpus} <= {*spare[slot.machine].gpus}
        for slot in wanted.slots
    )


def _earliest(need: Need, rooms: Sequence[MachineCapacity], held: Sequence[Holding]) -> datetime | None:
    """When the need fits at the latest, by the time limits of those that hold slots; None = nobody can say."""
    for end in sorted(h.until for h in held if h.until is not None):
        if fit(need, rooms, [h for h in held if h.until is None or h.until > end]):
            return end
    return None


def _never(job: Waiting, rooms: Sequence[MachineCapacity], compute: str) -> str:
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


def _needs(job: Waiting, rooms: Sequence[MachineCapacity], held: Sequence[Holding], compute: str) -> str:
    usable = [room for room in rooms if not room.unusable]
    free = free_of(usable, held).values()
    left, whole = sum(room.cpus for room in free), sum(room.cpus for room in usable)
    free_gpus, gpus = sum(len(room.gpus) for room in free), sum(len(room.gpus) for room in usable)
    is_full = not left and not (job.need.gpus and free_gpus)
    of = f"{left} of {counted(whole, 'CPU slot')}"
    if job.need.gpus:
        of += f" and {free_gpus} of {counted(gpus, 'GPU')} are free"
    else:
        of += " is free" if left == 1 else " are free"
    holders = (
        f"; {'all' if is_full else 'the others'} are held by {_holders(held)}" if any(h.slots for h in held) else ""
    )
    unusable = "".join(f"; {room.name} can't be used: {room.unusable}" for room in rooms if room.unusable)
    start = _describe_start(job, rooms, held)
    return (
        f"needs {_format_need(job)} of {compute}, where {of}{holders}; it is next"
        f"{f' and starts {start}' if start else ''}{unusable}"
    )


def _describe_wait_behind(
    first: Waiting, rooms: Sequence[MachineCapacity], held: Sequence[Holding], said: dict[int, str]
) -> str:
    """Why a job that would fit waits behind the next one, and when that one starts as far as it is known.

    said: the sentences so far, by the number of holders; it is one for all that wait while the same jobs hold slots.
    """
    if len(held) in said:
        return said[len(held)]
    own = rooms_of(first, rooms)
    start, latest = _describe_start(first, own, held), _earliest(first.need, own, held)
    when = [f"starts {start}"] if start else []
    if latest is not None:
        when.append(f"at the latest at {latest.astimezone(UTC):%H:%M UTC on %d %B}, by their time limits")
    that_is = f", and {', '.join(when)}" if when else ""
    said[len(held)] = f"; what is free is kept for {first.job}, which needs {_format_need(first)}{that_is}"
    return said[len(held)]


def _format_need(job: Waiting) -> str:
    what = "all CPU slots" if job.need.alone else format_amount(job.need)
    return f"at least {what}" if job.need.is_elastic and job.need.nodes == job.need.min_nodes else what


def _describe_start(job: Waiting, rooms: Sequence[MachineCapacity], held: Sequence[Holding]) -> str:
    """Whose end is enough for the next job to start; "" = that isn't known, or would be a long list."""
    names = sorted({one.job for one in held if one.slots} - {job.job})
    if len(names) > _MAX_TRIED:
        return ""

    def fits(remaining: Collection[str]) -> bool:
        return fit(job.need, rooms, [one for one in held if one.job in {*remaining, job.job}]) is not None

    enough = [name for name in names if fits({*names} - {name})]
    if len(names) > 1 and enough == names:
        return "when one of them ends"
    if enough or not 1 < len(names) <= MAX_HOLDERS or not fits(()):
        return f"when {' or '.join(enough)} ends" if 0 < len(enough) <= MAX_HOLDERS else ""
    return f"{'at the latest ' if any(fits({name}) for name in names) else ''}when they have ended"


def _holders(held: Sequence[Holding], most: int = MAX_HOLDERS) -> str:
    """The jobs that hold slots, those that cannot go on first, with what they wait for."""
    waits = {h.job: h.waits_for for h in held if h.slots}
    names = sorted(waits, key=lambda name: (not waits[name], name))
    shown = [f"{name} ({waits[name]} waits; see drumbeat show {name})" if waits[name] else name for name in names]
    return list_first(shown, most) if names else "nobody"


def format_amount(need: Need) -> str:
    """Returns what a job needs: `2 CPU slots and 1 GPU on each of 4 nodes`."""
    each = _size(need.cpus, need.gpus) if need.gpus else counted(need.cpus, "CPU slot")
    return each if need.nodes == 1 else f"{each} on each of {need.nodes} nodes"


def _size(cpus: int, gpus: int) -> str:
    return f"{counted(cpus, 'CPU slot')} and {counted(gpus, 'GPU')}"
