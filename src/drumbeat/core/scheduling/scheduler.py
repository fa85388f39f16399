"""Who starts next, and why the others wait: pure.

Jobs are looked at by priority, then by what their users have used recently, then by age. A gang gets all of its slots
or none. A job that comes later may pass the first one that is blocked only where that can't delay it: by the time
limits of the jobs that run (EASY backfilling: Lifka, JSSPP 1995), or because it leaves all slots that the first one,
and those behind it that could run beside it, could come to need. A job that waits for a missing machine doesn't hold up
the others. A job that waits for a quota holds up only those that come later and count on the same limit. How use and
age count is in `fair_share.py`; what is known of each waiting job comes from `server/loop/waiting_jobs.py`. What keeps
all jobs of a compute from starting is asked for before, in `server/loop/placer.py`; when a machine is missing, in
`server/computes/compute_state.py`; the reasons of waiting are in `reason_table.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property, partial
from itertools import groupby
from typing import NamedTuple

from drumbeat.core.scheduling.occupancy import Occupancy
from drumbeat.core.scheduling.queued_job import (
    LACKS_SHARE,
    Placement,
    QueuedJob,
    QueuePosition,
    machines_for_job,
    possible_sizes,
    taken_by,
)
from drumbeat.core.scheduling.quota_balances import NO_BALANCES, Balances
from drumbeat.core.scheduling.quotas import Allowances, Amount, Payer, QuotaWait
from drumbeat.core.scheduling.reserves import Reserve
from drumbeat.core.scheduling.resource_needs import Need, Slot
from drumbeat.core.scheduling.slot_fitting import (
    FreeSlots,
    MachineCapacity,
    SlotAllocation,
    fit,
    fits_when_empty,
    is_unseen,
)
from drumbeat.core.scheduling.wait_reasons import (
    SlotUse,
    describe_misfit,
    describe_need_for_slots,
    describe_start,
    describe_use_order,
    expected_machines,
    format_need,
    wait_for_machines,
    wait_for_share,
)
from drumbeat.model.states import Reason

_QUEUED = (Reason.WAITING_FOR_SLOTS, Reason.WAITING_FOR_TURN)


def place(  # noqa: PLR0913 - the queue, what there is, and how the users stand
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
    words = review(queue, Occupancy(rooms, held), now, compute=compute, balances=balances, has_spare=has_spare)
    return [one.placement if isinstance(one, QueuePosition) else one for one in words]


def review(  # noqa: PLR0913 - as `place`
    queue: Sequence[QueuedJob],
    occupancy: Occupancy,
    now: datetime,
    *,
    compute: str,
    balances: Balances = NO_BALANCES,
    has_spare: bool = True,
) -> list[Placement | QueuePosition]:
    """The same as `place`, where most jobs of a long queue only have a position."""
    one = _Pass(occupancy, now, compute, balances, has_spare=has_spare and len(queue) == 1)
    return [one.position(asked) or one.placed(asked) for asked in queue]


class _Kind:
    """Queued jobs with the same need on the same machines: what is found out for one holds for all in a pass."""

    def __init__(self, asked: QueuedJob, rooms: Sequence[MachineCapacity], compute: str) -> None:
        self.job = asked.least
        self.never, self.own = describe_misfit(self.job, rooms, compute), machines_for_job(self.job, rooms)
        self.machine_wait = wait_for_share(self.job, self.own, compute) or wait_for_machines(
            self.job, self.own, compute
        )
        self.is_unsure = is_unseen(rooms) and not fits_when_empty(self.job.need, rooms)
        self.is_usual = not (asked.need.is_elastic or asked.avoided or asked.lacking)
        """Whether any machine will do, in one number."""
        self.is_behind = False
        """Whether it waits for a blocked job, so that nothing more is kept for it."""
        self.fits: list[tuple[Slot, ...]] | None = None
        self.fits_at = -1
        """How many holders there were when `fits` was found out. What doesn't fit won't later in the pass."""
        self.chances: dict[object, _Chance] = {}
        self.chances_at = -1

    @cached_property
    def expected(self) -> Sequence[MachineCapacity]:
        """The machines as they will be."""
        return expected_machines(self.own)


class _Chance(NamedTuple):
    """Slots for a job, whether it may start with them now, and what it takes of quotas."""

    slots: tuple[Slot, ...] | None
    may_start: bool
    takes: Amount


class _WaitBehind(NamedTuple):
    """That jobs of one class wait for the first blocked job, while nothing changes that it depends on."""

    changes: int
    """How many changes there had been when it was decided."""
    kind: _Kind
    has_slots: bool


class _Pass:
    """One look at a queue. Each thing is found out once while nothing changes that it depends on."""

    def __init__(
        self, occupancy: Occupancy, now: datetime, compute: str, balances: Balances, *, has_spare: bool
    ) -> None:
        self._rooms, self._now, self._compute = occupancy.rooms, now, compute
        self._balances, self._has_spare = balances, has_spare
        self._holding, self._free = list(occupancy.held), occupancy.free.copy()
        self._ending = occupancy.holding_jobs
        self._allowances, self._has_quotas = balances.allowances, bool(balances.allowances.quotas)
        self._blocked: QueuedJob | None = None
        self._reserve = Reserve(occupancy.rooms, occupancy.given_back, self._free)
        self._unkept: list[_Kind] = []
        """Of jobs that wait, for which nothing is kept yet: that is seen to when a job could pass them."""
        self._changes = 0
        """Of the slots, the allowances, the blocked job, and what is kept for those that wait."""
        self._waits: dict[object, _WaitBehind] = {}
        self._count = 0
        self._kinds: dict[object, _Kind] = {}
        self._quota_waits: dict[object, QuotaWait | None] = {}
        self._waits_behind: tuple[dict[object, str], dict[object, str]] = ({}, {})
        """Sentences of jobs that would fit (1) and of those that wouldn't (0), by what they are compared by."""
        self._starts_behind: dict[int, str] = {}
        self._holders = occupancy.holders.copy()
        self._is_start_known = False
        self._start_known: tuple[datetime, FreeSlots] | None = None

    def position(self, asked: QueuedJob) -> QueuePosition | None:
        """The position of the next job of the queue where it waits as an earlier one of its class, else None."""
        before = self._waits.get((asked.class_key, asked.payer) if self._has_quotas else asked.class_key)
        if before is None or before.changes != self._changes or asked.job in self._ending:
            return None
        kind = before.kind
        if not kind.is_behind:
            if kind.fits:
                return None
            self._unkept.append(kind)
        elif kind.fits and self._unkept:
            return None
        self._count += 1
        behind = self._waits_behind[before.has_slots].get(asked.rival_key)
        return QueuePosition(
            asked.job,
            self._count,
            self._behind(asked, has_slots=before.has_slots) if behind is None else behind,
            kind.is_unsure,
        )

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
            sentence = f"number {self._count} {self._behind(asked, has_slots=bool(chance.slots))}"
            if asked.job not in self._ending:
                key = (asked.class_key, asked.payer) if self._has_quotas else asked.class_key
                self._waits[key] = _WaitBehind(self._changes, kind, bool(chance.slots))
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
        if kind.chances_at != self._changes:
            kind.chances, kind.chances_at = {}, self._changes
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
            if not self._reserve.is_empty and not self._fits_later(need, kind):
                kind.is_behind = True
                continue
            able = self._rooms if need.alone else [room for room in kind.own if room.unusable != LACKS_SHARE]
            self._reserve.keep(need, able, 1 if need.nodes <= len(self._rooms) else need.nodes)
            self._changes += 1
        self._unkept.clear()

    def _fits_later(self, need: Need, kind: _Kind) -> bool:
        """Whether a job fits beside what is kept once the jobs that run have ended."""
        if kind.expected is self._rooms:
            return self._reserve.leaves_room(need)
        return fit(need, kind.expected, [self._reserve.kept]) is not None

    # --- what becomes of it ---
    def _start(self, asked: QueuedJob, slots: tuple[Slot, ...], takes: Amount) -> None:
        holding = _allocation(asked, slots, self._now)
        self._changes += 1
        self._holding.append(holding)
        self._free.take(holding)
        self._reserve.started(holding)
        self._holders.add(holding)
        self._note_start(holding)
        self._set_allowances(self._allowances.taken(asked.job, asked.payer, takes))
        for sentences in self._waits_behind:
            sentences.clear()

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
        held = SlotUse(self._free_for(asked), self._holding, self._holders)
        return describe_need_for_slots(needed, kind.own, held, self._compute)

    def _behind(self, asked: QueuedJob, *, has_slots: bool) -> str:
        """Behind whom it waits, and why."""
        sentences = self._waits_behind[has_slots]
        sentence = sentences.get(asked.rival_key)
        if sentence is None:
            assert self._blocked is not None  # noqa: S101 - it is asked only then
            sentence = (
                f"in the queue of {self._compute}: {self._blocked.job} is next, and the slots are held by "
                f"{self._holders.describe()}{describe_use_order(self._balances, asked, self._blocked)}"
            )
            if has_slots:
                sentence += self._describe_wait_behind(self._blocked)
            sentences[asked.rival_key] = sentence
        return sentence

    def _describe_wait_behind(self, first: QueuedJob) -> str:
        """Why a job that would fit waits behind the next one, and when that one starts as far as it is known."""
        if len(self._holding) not in self._starts_behind:
            self._starts_behind[len(self._holding)] = self._format_wait_behind(first)
        return self._starts_behind[len(self._holding)]

    def _format_wait_behind(self, first: QueuedJob) -> str:
        start = describe_start(first, self._free_for(first), self._holding)
        when = [f"starts {start}"] if start else []
        if latest := self._first_start:
            when.append(f"at the latest at {latest[0].astimezone(UTC):%H:%M UTC on %d %B}, by their time limits")
        that_is = f", and {', '.join(when)}" if when else ""
        return f"; what is free is kept for {first.job}, which needs {format_need(first)}{that_is}"


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
