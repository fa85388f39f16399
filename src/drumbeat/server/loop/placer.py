"""The placement of queued jobs: slots are granted to the jobs that are next, and the others hear why they wait.

Which job is next is decided by `core/scheduling/scheduler.py`. This runs on the loop's thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from drumbeat.core.lifecycle.events import NeverFits, Placed, PlacementDeferred
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.scheduling import autoscaling
from drumbeat.core.scheduling.cluster_queue import enqueue
from drumbeat.core.scheduling.queued_job import Placement
from drumbeat.core.scheduling.resource_needs import Slot
from drumbeat.core.scheduling.scheduler import place
from drumbeat.core.scheduling.slot_fitting import MachineCapacity, SlotAllocation
from drumbeat.model.api.computes import Machine
from drumbeat.model.states import Reason
from drumbeat.server.database.records import Record
from drumbeat.server.loop.steps import Report
from drumbeat.server.loop.waiting_jobs import Queue, WaitingByJob, queue_of
from drumbeat.server.loop.work_queue import MAX_BATCH

if TYPE_CHECKING:
    from drumbeat.server.loop.loop import Loop


MAX_TOLD_AT_ONCE = 50
"""So many jobs at the head of a queue, and as many of the others by turns, are told at a look why they wait."""
MAX_FORGOTTEN = 1000
"""Jobs that don't wait any more, of which it is remembered what was made of them."""


@dataclass(frozen=True)
class Cap:
    """How many machines of a compute may be in use at a time. usual_s: how long one usually takes to start."""

    most: int
    usual_s: float | None = None


@dataclass(frozen=True)
class Supply:
    """What jobs are placed on, by compute."""

    machines: Mapping[str, tuple[Machine, ...]] = field(default_factory=dict[str, tuple[Machine, ...]])
    troubles: Mapping[str, str] = field(default_factory=dict[str, str])
    """Computes that no job can start on now, and why."""
    with_queue: frozenset[str] = frozenset()
    """Computes whose engines choose machines, and wait for them, themselves."""
    caps: Mapping[str, Cap] = field(default_factory=dict[str, Cap])
    """Computes whose number of machines is limited."""
    shared: frozenset[str] = frozenset()
    """Those `with_queue` on which nodes of one job may share a machine."""
    missing: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """Machines of a compute that have been unusable for so long that no job keeps its place in the queue for them."""

    def rooms(self, compute: str) -> list[MachineCapacity]:
        """The machines of a compute that jobs may be placed on."""
        missing = self.missing.get(compute, frozenset[str]())
        rooms = [
            MachineCapacity(m.name, m.cpus, m.gpus, m.unusable, m.state, m.is_for_gpus, is_missing=m.name in missing)
            for m in self.machines.get(compute, ())
        ]
        cap = self.caps.get(compute)
        return rooms if cap is None or compute in self.with_queue else autoscaling.within(rooms, cap.most)


class Placer:
    """Places the queued jobs of a loop."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._memory: WaitingByJob = {}
        self._held: dict[str, tuple[int, dict[tuple[str, int], SlotAllocation]]] = {}
        """What is held of each compute, and the version of the store's slots that it was read at."""
        self._next_told: dict[str, int] = {}
        """The place in each queue from which on the jobs far behind are told next."""
        self.has_untold = False
        """Whether jobs far behind don't know yet what their wait is now."""

    def place(self) -> None:
        """Places the jobs of every compute's queue. The loop does it again at a tick when it fails."""
        unfinished = self._loop.unfinished()
        queued: dict[str, list[Job]] = {}
        for job in self._loop.jobs_queued(unfinished):
            queued.setdefault(job.plan.compute, []).append(job)
        if len(self._memory) > 2 * len(unfinished) + MAX_FORGOTTEN:
            self._memory.clear()
        self.has_untold = False
        for compute, jobs in sorted(queued.items()):
            self._place(compute, self._queue_of(jobs), unfinished)

    def queue(self, compute: str, unfinished: dict[str, Record], *more: Job) -> Queue:
        """The jobs that wait for slots of a compute, and how their persons stand. more: as if they waited, too."""
        jobs = [job for job in self._loop.jobs_queued(unfinished) if job.plan.compute == compute]
        return self._queue_of([*jobs, *more])

    def _queue_of(self, jobs: list[Job]) -> Queue:
        return queue_of(jobs, self._loop.store, self._loop.clock.now(), self._memory)

    def _place(self, compute: str, queue: Queue, unfinished: dict[str, Record]) -> None:
        supply = self._loop.supply
        trouble = supply.troubles.get(compute, "" if compute in supply.machines else "it isn't there any more")
        if trouble:
            sentence, reason = f"compute {compute} can't be used: {trouble}", Reason.WAITING_FOR_SLOTS
            self._tell_all(compute, [Placement(one.job, (), reason, sentence, is_unsure=True) for one in queue.jobs])
            return
        self._tell_all(compute, self.placed(compute, queue, supply.rooms(compute), self.holdings(compute, unfinished)))

    def placed(
        self, compute: str, queue: Queue, rooms: list[MachineCapacity], held: list[SlotAllocation]
    ) -> list[Placement]:
        """A word for every job of a compute's queue."""
        cap = self._loop.supply.caps.get(compute)
        if compute in self._loop.supply.with_queue:
            is_shared = compute in self._loop.supply.shared
            placements = enqueue(
                queue.jobs, rooms, compute=compute, balances=queue.balances, is_shared=is_shared,
                taken=[slot for one in held for slot in one.slots],
            )  # fmt: skip
            if cap is None:
                return placements
            return autoscaling.capped(
                placements, cap.most, {one.job: len(one.slots) for one in held if one.slots}, compute
            )
        placements = place(queue.jobs, rooms, held, self._loop.clock.now(), compute=compute, balances=queue.balances)
        return self._awaited(placements, queue, rooms, held, cap) if cap else placements

    def _awaited(
        self,
        placements: Sequence[Placement],
        queue: Queue,
        rooms: list[MachineCapacity],
        held: list[SlotAllocation],
        cap: Cap,
    ) -> list[Placement]:
        """The same, where machines are started for a job: with that as the reason."""
        if not any(_may_be_awaited(one) for one in placements):
            return [*placements]
        expected = self.expected(queue, rooms, held)
        sentences = (
            autoscaling.awaited(expected.get(one.job, ()), rooms, cap.usual_s) if _may_be_awaited(one) else ""
            for one in placements
        )
        return [
            one._replace(reason=Reason.WAITING_FOR_SLOTS, sentence=sentence) if sentence else one
            for one, sentence in zip(placements, sentences, strict=True)
        ]

    def expected(
        self, queue: Queue, rooms: list[MachineCapacity], held: list[SlotAllocation]
    ) -> dict[str, tuple[Slot, ...]]:
        """The slots that queued jobs would be given if the machines that can be started had started."""
        placements = place(
            queue.jobs,
            autoscaling.as_if_started(rooms),
            held,
            self._loop.clock.now(),
            compute="",
            balances=queue.balances,
            has_spare=False,
        )
        return {one.job: one.slots for one in placements if one.slots}

    def holdings(self, compute: str, unfinished: dict[str, Record]) -> list[SlotAllocation]:
        """Who holds the slots of a compute, and until when at the latest."""
        holdings = self._held_slots(compute)
        for (name, attempt), holding in holdings.items():
            if record := unfinished.get(name):
                until, waits_for = record.job.deadline, record.job.waits_for
                if holding.until != until or holding.waits_for != waits_for:
                    holdings[name, attempt] = replace(holding, until=until, waits_for=waits_for)
            elif holding.until or holding.waits_for:
                holdings[name, attempt] = SlotAllocation(name, holding.slots)
        return [*holdings.values()]

    def _held_slots(self, compute: str) -> dict[tuple[str, int], SlotAllocation]:
        """What each attempt holds. It is read again when slots were taken or given back."""
        version = self._loop.store.slots_version
        if compute not in self._held or self._held[compute][0] != version:
            slots: dict[tuple[str, int], list[Slot]] = {}
            for one in self._loop.store.reservations(compute):
                slots.setdefault((one.job, one.attempt), []).append(one.slot)
            self._held[compute] = version, {key: SlotAllocation(key[0], tuple(those)) for key, those in slots.items()}
        return self._held[compute][1]

    # --- telling jobs ---
    def _tell_all(self, compute: str, placements: Sequence[Placement]) -> None:
        """Lets jobs know of what is new to them. Those that wait are told together.

        In a long queue, jobs that are far behind and know of their wait hear of its changes by turns.
        """
        waits: list[tuple[int, str, PlacementDeferred]] = []
        for at, placed in enumerate(placements):
            event = self._event(placed)
            if isinstance(event, PlacementDeferred):
                waits.append((at, placed.job, event))
            elif event is not None:
                self._loop.apply(placed.job, event, placed.slots)
        self._tell_waits([*self._next(compute, waits)])

    def _event(self, placed: Placement) -> Placed | NeverFits | PlacementDeferred | None:
        """What a placement is for its job; None = the job knows it.

        A job is `accepted` until it was seen that it fits at all; once it has fitted, it waits whatever there is.
        """
        if placed.slots:
            return Placed(placed.slots)
        job = self._loop.jobs[placed.job].job
        reason, sentence = placed.reason, placed.sentence
        if placed.lacks_share:
            return NeverFits(sentence, job.machine_faults[-1].reason if job.machine_faults else Reason.SHARE_MISSING)
        if placed.never and job.reason is Reason.ACCEPTED:
            return NeverFits(sentence)
        if placed.never:  # There was more when it came, and there may be again: GPUs go with their driver, say.
            reason, sentence = Reason.WAITING_FOR_SLOTS, f"{sentence} now"
        elif placed.is_unsure and job.reason is Reason.ACCEPTED:
            reason = Reason.ACCEPTED
        if reason is None or (job.reason is reason and job.sentence == sentence):
            return None
        return PlacementDeferred(reason, sentence)

    def _next(
        self, compute: str, waits: Sequence[tuple[int, str, PlacementDeferred]]
    ) -> Iterator[tuple[str, PlacementDeferred]]:
        """Those that are told now: the first ones, those that don't know yet why they wait, and some of the others."""
        behind: list[tuple[int, str, PlacementDeferred]] = []
        for at, job, event in waits:
            if at < MAX_TOLD_AT_ONCE or self._loop.jobs[job].job.reason is Reason.ACCEPTED:
                yield job, event
            else:
                behind.append((at, job, event))
        start = self._next_told.pop(compute, 0)
        turn = [one for one in behind if one[0] >= start][:MAX_TOLD_AT_ONCE] or behind[:MAX_TOLD_AT_ONCE]
        yield from ((job, event) for _, job, event in turn)
        if len(turn) < len(behind):
            self.has_untold, self._next_told[compute] = True, turn[-1][0] + 1

    def _tell_waits(self, waits: Sequence[tuple[str, PlacementDeferred]]) -> None:
        reports = [Report(job, event) for job, event in waits]
        for start in range(0, len(reports), MAX_BATCH):
            self._loop.apply_all(reports[start : start + MAX_BATCH])
        for one in reports:
            one.done.result()


def _may_be_awaited(one: Placement) -> bool:
    return one.reason not in (None, Reason.WAITING_FOR_QUOTA)
