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

from bisect import insort
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from itertools import groupby
from typing import NamedTuple

from drumbeat.core.scheduling.quota_balances import NO_BALANCES, Balances
from drumbeat.core.scheduling.quotas import Allowances, Amount, Payer, QuotaWait
from drumbeat.core.scheduling.reserves import Reserve
from drumbeat.core.scheduling.resource_needs import Need, Slot
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

_LACKS = "it was given up for this job"
_QUEUED = (Reason.WAITING_FOR_SLOTS, Reason.WAITING_FOR_TURN)
MAX_HOLDERS = 3
"""So many of the jobs that hold slots are named in a sentence."""
_MAX_TRIED = 50
"""Of more jobs than these it isn't tried whose end is enough for the next one."""


@dataclass(frozen=True)
class QueuedJob:
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
    is_resized: bool = False
    """It is an elastic job between two attempts: it comes first, so that it keeps the nodes that it had."""

    growth: int = 0
    """The number of nodes for which an elastic job has ended its round, 0 = it lost some."""
    kept: int = 0
    """How many nodes of its last attempt an elastic job has not lost."""

    @property
    def least(self) -> QueuedJob:
        """The job with the fewest nodes with which it can start."""
        return replace(self, need=self.need.least) if self.need.is_elastic else self

    @property
    def aim(self) -> Need:
        """The need with which an elastic job waits for the slots of its last attempt."""
        return replace(self.need, nodes=max(self.need.nodes, self.growth))

    @cached_property
    def kind(self) -> tuple[object, ...]:
        """What its slots depend on."""
        return self.need, self.lacking, self.avoided, self.lack, self.growth, self.kept

    def rank(self, use: float = 0.0) -> tuple[bool, int, float, datetime, str]:
        """Its place in the queue: by priority, then by recent use, then by age.

        use: slot-hours that count against its person; 0 once its age is `MAX_AGE` in fair_share.py.
        """
        return not self.is_resized, -self.priority, use, self.submitted_at, self.job


class Placement(NamedTuple):  # Ten thousand are made in a pass, and a dataclass takes four times as long.
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
    queue: Sequence[QueuedJob],
    rooms: Sequence[MachineCapacity],
    held: Sequence[SlotAllocation],
    now: datetime,
    *,
    compute: str,
    balances: Balances = NO_BALANCES,
    has_spare: bool = True,
) -> list[Placement]:
    """A word for every job of the queue. queue: in the order in which they are served.

    has_spare: an elastic job that has the queue to itself may have more nodes than it asks for.
    """
    one = _Pass(rooms, held, now, compute, balances, has_spare=has_spare and len(queue) == 1)
    return [one.placed(asked) for asked in queue]


class _Kind:
    """Queued jobs with the same need on the same machines: what is found out for one holds for all in a pass."""

    def __init__(self, asked: QueuedJob, rooms: Sequence[MachineCapacity], compute: str) -> None:
        self.job = asked.least
        self.never, self.own = _never(self.job, rooms, compute), machines_for_job(self.job, rooms)
        self.machine_wait = _lack(self.job, self.own, compute) or _missing(self.job, self.own, compute)
        self.is_unsure = is_unseen(rooms) and not fits_when_empty(self.job.need, rooms)
        self.is_usual = not (asked.need.is_elastic or asked.avoided or asked.lacking)
        """Whether any machine will do, in one number."""
        self.is_behind = False
        """Whether it waits for a blocked job, so that nothing more is kept for it."""
        self.fits: list[tuple[Slot, ...]] | None = None
        self.fits_at = -1
        """How many holders there were when `fits` was found out. What doesn't fit won't later in the pass."""
        self.chances: dict[object, _Chance] = {}
        self.chances_at: tuple[int, ...] = ()

    @cached_property
    def expected(self) -> Sequence[MachineCapacity]:
        """The machines as they will be."""
        return _expected(self.own)


class _Chance(NamedTuple):
    """Slots for a job, whether it may start with them now, and what it takes of quotas."""

    slots: tuple[Slot, ...] | None
    may_start: bool
    takes: Amount


class _Pass:
    """One look at a queue. Each thing is found out once while nothing changes that it depends on."""

    def __init__(  # noqa: PLR0913 - as `place`
        self,
        rooms: Sequence[MachineCapacity],
        held: Sequence[SlotAllocation],
        now: datetime,
        compute: str,
        balances: Balances,
        *,
        has_spare: bool,
    ) -> None:
        self._rooms, self._held, self._now, self._compute = rooms, held, now, compute
        self._balances, self._has_spare = balances, has_spare
        self._holding, self._free = list(held), FreeSlots(rooms, held)
        self._ending = {one.job for one in held if one.slots}
        self._allowances, self._has_quotas = balances.allowances, bool(balances.allowances.quotas)
        self._blocked: QueuedJob | None = None
        self._reserve = Reserve(rooms, held, self._free)
        self._unkept: list[_Kind] = []
        """Of jobs that wait, for which nothing is kept yet: that is seen to when a job could pass them."""
        self._changes = 0
        """Of the allowances, and of the blocked job."""
        self._count = 0
        self._kinds: dict[object, _Kind] = {}
        self._quota_waits: dict[object, QuotaWait | None] = {}
        self._waits_behind: dict[object, str] = {}
        self._starts_behind: dict[int, str] = {}
        self._holders = _Holders(held)
        self._is_start_known = False
        self._start_known: tuple[datetime, FreeSlots] | None = None

    def placed(self, asked: QueuedJob) -> Placement:
        """A word for the next job of the queue."""
        kind = self._kind(asked)
        if kind.never:
            return Placement(asked.job, never=True, sentence=kind.never)
        if kind.machine_wait:
            self._count += kind.machine_wait.reason in _QUEUED
            return kind.machine_wait._replace(job=asked.job)
        chance = self._chance(asked, kind)
        if wait := self._quota_wait(asked.payer, chance.takes):
            self._set_allowances(self._allowances.behind(wait))
            return Placement(asked.job, reason=Reason.WAITING_FOR_QUOTA, sentence=wait.sentence)
        if chance.may_start and chance.slots:
            self._start(asked, chance.slots, chance.takes)
            return Placement(asked.job, chance.slots)
        self._count += 1
        if self._blocked is None:
            reason, sentence = Reason.WAITING_FOR_SLOTS, self._block(asked, kind, chance.takes)
        else:
            reason = Reason.WAITING_FOR_TURN
            behind = self._wait_behind(asked, self._blocked, has_slots=bool(chance.slots))
            sentence = f"number {self._count} in the queue of {self._compute}: {behind}"
        if not kind.is_behind:
            self._unkept.append(kind)
        return Placement(asked.job, (), reason, sentence, is_unsure=kind.is_unsure)

    def _kind(self, asked: QueuedJob) -> _Kind:
        key = (asked.kind, asked.job) if asked.job in self._ending else asked.kind
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = _Kind(asked, self._rooms, self._compute)
        return kind

    # --- whether it may start ---
    def _chance(self, asked: QueuedJob, kind: _Kind) -> _Chance:
        """The slots with the most nodes with which it may start, else the last ones that it could have."""
        fits, is_behind = self._fits(asked, kind), self._blocked is not None
        if fits and is_behind:
            self._keep()
        at = (len(self._holding), self._changes, self._reserve.changes)
        if kind.chances_at != at:
            kind.chances, kind.chances_at = {}, at
        key = (asked.payer if self._has_quotas else None, asked.lasts)
        chance = kind.chances.get(key)
        if chance is None:
            if fits and is_behind:
                fits = [*fits, *self._fits_beside(asked, kind)]
            may_start = partial(self._may_start, asked.least)
            slots = next(filter(may_start, fits), fits[-1] if fits else None)
            takes = taken_by(kind.job.need, slots, self._rooms)
            chance = kind.chances[key] = _Chance(slots, bool(slots) and may_start(slots), takes)
        return chance

    def _fits(self, asked: QueuedJob, kind: _Kind) -> list[tuple[Slot, ...]]:
        if kind.fits is None or (kind.fits and kind.fits_at != len(self._holding)):
            if kind.is_usual:
                slots = self._free.fit(asked.need)
                kind.fits = [slots] if slots else []
            else:
                kind.fits = _fits(asked, kind.own, self._holding, has_spare=self._has_spare)
            kind.fits_at = len(self._holding)
        return kind.fits

    def _fits_beside(self, asked: QueuedJob, kind: _Kind) -> list[tuple[Slot, ...]]:
        """The same beside what is kept for blocked jobs."""
        reserve = self._reserve.now
        if not kind.is_usual:
            return _fits(asked, kind.own, [*self._holding, reserve], has_spare=False)
        self._free.take(reserve)
        slots = self._free.fit(asked.need)
        self._free.give(reserve)
        return [slots] if slots else []

    def _may_start(self, job: QueuedJob, slots: tuple[Slot, ...]) -> bool:
        """Whether the job may start with these slots now."""
        if self._quota_wait(job.payer, taken_by(job.need, slots, self._rooms)):
            return False
        if self._blocked is None:
            return True
        wanted = _allocation(job, slots, self._now)
        return self._reserve.spares(wanted) or self._delays_nobody(wanted, self._blocked)

    def _quota_wait(self, payer: Payer, takes: Amount) -> QuotaWait | None:
        if not self._has_quotas:
            return None
        key = (payer, takes)
        if key not in self._quota_waits:
            self._quota_waits[key] = self._allowances.wait(payer, takes)
        return self._quota_waits[key]

    def _set_allowances(self, allowances: Allowances) -> None:
        if self._has_quotas and allowances != self._allowances:
            self._allowances = allowances
            self._quota_waits.clear()
            self._changes += 1

    def _delays_nobody(self, wanted: SlotAllocation, first: QueuedJob) -> bool:
        """Whether the first blocked job starts no later if these slots are taken now."""
        if self._first_start is None:
            return False
        start, free = self._first_start
        if wanted.until is not None and wanted.until <= start:
            return True
        free.take(wanted)
        fits = free.fits(first.need)
        free.give(wanted)
        return fits

    @property
    def _first_start(self) -> tuple[datetime, FreeSlots] | None:
        """When the first blocked job starts at the latest, and what is free of its machines then."""
        if not self._is_start_known:
            assert self._blocked is not None  # noqa: S101 - it is asked only then
            self._is_start_known = True
            self._start_known = _start_of(self._blocked, self._free_for(self._blocked), self._holding)
        return self._start_known

    def _free_for(self, job: QueuedJob) -> FreeSlots:
        """What is free of the machines as a job may use them, to be changed."""
        return FreeSlots(machines_for_job(job, self._rooms), self._holding) if job.lacking else self._free.copy()

    def _keep(self) -> None:
        """Keeps slots for the jobs that wait, where they wait for no blocked job."""
        for kind in self._unkept:
            if kind.is_behind:
                continue
            need = kind.job.need
            if not self._reserve.is_empty and not fit(need, kind.expected, [self._reserve.kept]):
                kind.is_behind = True
                continue
            able = self._rooms if need.alone else [room for room in kind.own if room.unusable != _LACKS]
            self._reserve.keep(need, able, 1 if need.nodes <= len(self._rooms) else need.nodes)
        self._unkept.clear()

    # --- what becomes of it ---
    def _start(self, asked: QueuedJob, slots: tuple[Slot, ...], takes: Amount) -> None:
        holding = _allocation(asked, slots, self._now)
        self._holding.append(holding)
        self._free.take(holding)
        self._reserve.started(holding)
        self._holders.add(holding)
        self._note_start(holding)
        self._set_allowances(self._allowances.taken(asked.job, asked.payer, takes))
        self._waits_behind.clear()

    def _note_start(self, holding: SlotAllocation) -> None:
        """The first blocked job starts when it would have if it still fits then: more slots are held, and no fewer."""
        if self._start_known and self._blocked:
            start, free = self._start_known
            if holding.until is None or holding.until > start:
                free.take(holding)
                self._is_start_known = free.fits(self._blocked.need)

    def _block(self, asked: QueuedJob, kind: _Kind, takes: Amount) -> str:
        """Makes it the first job that is blocked; why it waits."""
        self._blocked = asked.least
        self._changes += 1
        self._set_allowances(self._allowances.reserved_for(asked.job, asked.payer, takes))
        needed = replace(asked, need=asked.aim) if asked.job in self._ending else asked.least
        held = _Held(self._free_for(asked), self._holding, self._holders)
        return _needs(needed, kind.own, held, self._compute)

    def _wait_behind(self, asked: QueuedJob, blocked: QueuedJob, *, has_slots: bool) -> str:
        """Behind whom it waits, and why."""
        key = (asked.payer.user, asked.priority, has_slots)
        sentence = self._waits_behind.get(key)
        if sentence is None:
            sentence = (
                f"{blocked.job} is next, and the slots are held by {self._holders.describe()}"
                f"{_describe_use(self._balances, asked, blocked)}"
            )
            if has_slots:
                sentence += self._describe_wait_behind(blocked)
            self._waits_behind[key] = sentence
        return sentence

    def _describe_wait_behind(self, first: QueuedJob) -> str:
        """Why a job that would fit waits behind the next one, and when that one starts as far as it is known."""
        if len(self._holding) not in self._starts_behind:
            self._starts_behind[len(self._holding)] = self._format_wait_behind(first)
        return self._starts_behind[len(self._holding)]

    def _format_wait_behind(self, first: QueuedJob) -> str:
        start = _describe_start(first, self._free_for(first), self._holding)
        when = [f"starts {start}"] if start else []
        if latest := self._first_start:
            when.append(f"at the latest at {latest[0].astimezone(UTC):%H:%M UTC on %d %B}, by their time limits")
        that_is = f", and {', '.join(when)}" if when else ""
        return f"; what is free is kept for {first.job}, which needs {_format_need(first)}{that_is}"


def _allocation(job: QueuedJob, slots: Sequence[Slot] | None, now: datetime) -> SlotAllocation:
    return SlotAllocation(job.job, tuple(slots or ()), now + job.lasts if job.lasts else None)


def _fits(
    job: QueuedJob, rooms: Sequence[MachineCapacity], held: Sequence[SlotAllocation], *, has_spare: bool
) -> list[tuple[Slot, ...]]:
    """Slots with which the job could start now, those with the most nodes first; several for elastic jobs only.

    Until its last attempt has given its slots back, an elastic job doesn't begin with fewer nodes than it asks for, or
    than it has ended its round for.
    """
    sizes: Sequence[Need] = [job.need]
    if job.need.is_elastic:
        least = job.aim.nodes if _is_ending(job, held) else 0
        sizes = [one for one in possible_sizes(job, rooms, has_spare=has_spare) if one.nodes >= least]
    elsewhere = [slots for size in sizes if (slots := _fit_elsewhere(replace(job, need=size), rooms, held))]
    return elsewhere or [slots for size in sizes if (slots := fit(size, rooms, held))]


def _is_ending(job: QueuedJob, held: Sequence[SlotAllocation]) -> bool:
    """Whether an earlier attempt of the job still holds slots."""
    return any(one.job == job.job and one.slots for one in held)


def possible_sizes(job: QueuedJob, rooms: Sequence[MachineCapacity], *, has_spare: bool) -> tuple[Need, ...]:
    """The sizes that an elastic job may have, the largest first.

    It has more nodes than it asks for only where that puts no two of them on the same machine.
    """
    need = job.need
    largest = need.max_nodes if has_spare else max(need.nodes, job.growth or job.kept)
    return need.sizes(largest if need.nodes > len(rooms) else min(largest, len(rooms)))


def machines_for_job(job: QueuedJob, rooms: Sequence[MachineCapacity]) -> Sequence[MachineCapacity]:
    """The machines as this job may use them."""
    if not job.lacking:
        return rooms
    return [replace(room, unusable=_LACKS) if room.name in job.lacking else room for room in rooms]


def _lack(job: QueuedJob, own: Sequence[MachineCapacity], compute: str) -> Placement | None:
    """A word for a job that the machines with its share can't hold, however little they have to do; None = they can.

    It never becomes the first one that is blocked: no other job may wait for it.
    """
    if not job.lacking:
        return None
    able = [room if room.unusable == _LACKS else replace(room, unusable="") for room in own]
    if fit(job.need, able, ()):
        return None
    sentence = f"{job.lack.removesuffix('.')}; the other machines of {compute} can't hold the job"
    if is_unseen([room for room in own if room.unusable != _LACKS]):
        return Placement(job.job, reason=Reason.WAITING_FOR_SLOTS, sentence=f"{sentence} as far as they were seen")
    return Placement(job.job, never=True, lacks_share=True, sentence=sentence)


def _missing(job: QueuedJob, own: Sequence[MachineCapacity], compute: str) -> Placement | None:
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


def _expected(own: Sequence[MachineCapacity]) -> Sequence[MachineCapacity]:
    """The machines as they will be: those that can't be used for the moment count as if they could."""
    if not any(room.unusable for room in own):
        return own
    return [room if room.unusable in ("", _LACKS) or room.is_missing else replace(room, unusable="") for room in own]


def taken_by(need: Need, slots: Sequence[Slot] | None, rooms: Sequence[MachineCapacity]) -> Amount:
    """What a job takes of quotas: its slots, or what it would have."""
    if slots:
        return Amount(sum(slot.cpus for slot in slots), sum(len(slot.gpus) for slot in slots))
    cpus = sum(room.cpus for room in rooms if room.takes(need)) if need.alone else need.nodes * need.cpus
    return Amount(cpus, need.nodes * need.gpus)


def _describe_use(balances: Balances, job: QueuedJob, first: QueuedJob) -> str:
    """By which numbers another person's job of the same priority comes first."""
    return balances.describe(job.payer.user, first.payer.user) if job.priority == first.priority else ""


def _fit_elsewhere(
    job: QueuedJob, rooms: Sequence[MachineCapacity], held: Sequence[SlotAllocation]
) -> tuple[Slot, ...] | None:
    """Slots on none of the machines that the job avoids."""
    if not job.avoided:
        return None
    others = [replace(room, unusable="lost") if room.name in job.avoided else room for room in rooms]
    return fit(job.need, others, held)


def _start_of(first: QueuedJob, free: FreeSlots, held: Sequence[SlotAllocation]) -> tuple[datetime, FreeSlots] | None:
    """When a job fits at the latest, by the time limits of those that hold slots, and what is free of its machines
    then; None = that can't be told. free: what is free of them now.
    """
    need = first.need
    count = free.count(need)
    limited = sorted((one for one in held if one.until is not None), key=_until)
    for end, ending in groupby(limited, key=_until):
        gone = list(ending)
        machines = {slot.machine for one in gone for slot in one.slots}
        count -= free.count(need, machines)
        for one in gone:
            free.give(one)
        count += free.count(need, machines)
        if free.fits(need) if need.alone else count >= need.nodes:
            return end, free
    return None


def _until(one: SlotAllocation) -> datetime:
    return one.until or datetime.max.replace(tzinfo=UTC)


def _never(job: QueuedJob, rooms: Sequence[MachineCapacity], compute: str) -> str:
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


class _Held(NamedTuple):
    """What is free of a job's machines, and who holds the rest."""

    free: FreeSlots
    holding: Sequence[SlotAllocation]
    holders: _Holders


def _needs(job: QueuedJob, rooms: Sequence[MachineCapacity], held: _Held, compute: str) -> str:
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
    start = _describe_start(job, free, held.holding)
    return (
        f"needs {_format_need(job)} of {compute}, where {of}{holders}; it is next"
        f"{f' and starts {start}' if start else ''}{unusable}"
    )


def _format_need(job: QueuedJob) -> str:
    what = "all CPU slots" if job.need.alone else format_amount(job.need)
    return f"at least {what}" if job.need.is_elastic and job.need.nodes == job.need.min_nodes else what


def _describe_start(job: QueuedJob, free: FreeSlots, held: Sequence[SlotAllocation]) -> str:
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


class _Holders:
    """The jobs that hold slots, in words: those that can't go on first, with what they wait for."""

    def __init__(self, held: Iterable[SlotAllocation]) -> None:
        self._waits = {one.job: one.waits_for for one in held if one.slots}
        self._order = sorted((not waits_for, job) for job, waits_for in self._waits.items())

    def add(self, holding: SlotAllocation) -> None:
        """Adds a job that has been given slots, and waits for nothing."""
        if holding.job in self._waits:
            self._order.remove((not self._waits[holding.job], holding.job))
        self._waits[holding.job] = ""
        insort(self._order, (True, holding.job))

    @property
    def count(self) -> int:
        """How many they are."""
        return len(self._order)

    def describe(self) -> str:
        """Returns the first of them by name, and how many there are."""
        first = [name for _, name in self._order[:MAX_HOLDERS]]
        shown = [
            f"{name} ({wait} waits; see drumbeat show {name})" if (wait := self._waits[name]) else name
            for name in first
        ]
        more = len(self._order) - len(first)
        return f"{', '.join(shown)} and {more} more" if more else ", ".join(shown) or "nobody"


def format_amount(need: Need) -> str:
    """Returns what a job needs: `2 CPU slots and 1 GPU on each of 4 nodes`."""
    each = _size(need.cpus, need.gpus) if need.gpus else counted(need.cpus, "CPU slot")
    return each if need.nodes == 1 else f"{each} on each of {need.nodes} nodes"


def _size(cpus: int, gpus: int) -> str:
    return f"{counted(cpus, 'CPU slot')} and {counted(gpus, 'GPU')}"
