"""The placement of queued jobs: slots are granted to the jobs that are next, and the others hear why they wait.

Which job is next is decided by `core/scheduling/scheduler.py`. This runs on the loop's thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from drumbeat.core.lifecycle.events import NeverFits, Placed, PlacementDeferred
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.scheduling import autoscaling
from drumbeat.core.scheduling.cluster_queue import enqueue
from drumbeat.core.scheduling.resource_needs import Slot
from drumbeat.core.scheduling.scheduler import Placement, place
from drumbeat.core.scheduling.slot_fitting import Holding, MachineCapacity
from drumbeat.model.api.computes import Machine
from drumbeat.model.states import Reason
from drumbeat.server.database.records import Record
from drumbeat.server.loop.waiting_jobs import Queue, queue_of

if TYPE_CHECKING:
    from drumbeat.server.loop.loop import Loop


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

    def place(self) -> None:
        """Places the jobs of every compute's queue. The loop does it again at a tick when it fails."""
        unfinished = self._loop.unfinished()
        for compute in sorted({job.plan.compute for job in self._loop.jobs_queued(self._loop.jobs)}):
            self._place(compute, unfinished)

    def queue(self, compute: str, unfinished: dict[str, Record], *more: Job) -> Queue:
        """The jobs that wait for slots of a compute, and how their persons stand. more: as if they waited, too."""
        jobs = [job for job in self._loop.jobs_queued(unfinished) if job.plan.compute == compute]
        return queue_of([*jobs, *more], self._loop.store, self._loop.clock.now())

    def _place(self, compute: str, unfinished: dict[str, Record]) -> None:
        queue = self.queue(compute, unfinished)
        supply = self._loop.supply
        trouble = supply.troubles.get(compute, "" if compute in supply.machines else "it isn't there any more")
        if trouble:
            for one in queue.jobs:
                self._wait_for(compute, one.job, trouble)
            return
        rooms = supply.rooms(compute)
        held = self.holdings(compute, unfinished)
        for placed in self.placed(compute, queue, rooms, held):
            self._tell(placed)

    def placed(self, compute: str, queue: Queue, rooms: list[MachineCapacity], held: list[Holding]) -> list[Placement]:
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
        return [self._awaited(one, queue, rooms, held, cap) for one in placements] if cap else placements

    def _awaited(
        self, placed: Placement, queue: Queue, rooms: list[MachineCapacity], held: list[Holding], cap: Cap
    ) -> Placement:
        """The same, where machines are started for the job: with that as the reason."""
        if placed.reason in (None, Reason.WAITING_FOR_QUOTA):
            return placed
        slots = self.expected(queue, rooms, held).get(placed.job, ())
        sentence = autoscaling.awaited(slots, rooms, cap.usual_s)
        return replace(placed, reason=Reason.WAITING_FOR_SLOTS, sentence=sentence) if sentence else placed

    def expected(self, queue: Queue, rooms: list[MachineCapacity], held: list[Holding]) -> dict[str, tuple[Slot, ...]]:
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

    def _wait_for(self, compute: str, job: str, trouble: str) -> None:
        """For a compute that can't be used: it may be again."""
        sentence = f"compute {compute} can't be used: {trouble}"
        self._waits(job, Reason.WAITING_FOR_SLOTS, sentence, is_judged=False)

    def _waits(self, job: str, reason: Reason, sentence: str, *, is_judged: bool) -> None:
        """A job is `accepted` until it was seen that it fits at all; once it has fitted, it waits whatever there is."""
        is_new = not is_judged and self._loop.jobs[job].job.reason is Reason.ACCEPTED
        self._loop.apply(job, PlacementDeferred(Reason.ACCEPTED if is_new else reason, sentence))

    def holdings(self, compute: str, unfinished: dict[str, Record]) -> list[Holding]:
        """Who holds the slots of a compute, and until when at the latest."""
        held: dict[tuple[str, int], list[Slot]] = {}
        for one in self._loop.store.reservations(compute):
            held.setdefault((one.job, one.attempt), []).append(one.slot)
        jobs = {name: record.job for name, record in unfinished.items()}
        return [
            Holding(name, tuple(slots), jobs[name].deadline, jobs[name].waits_for)
            if name in jobs
            else Holding(name, tuple(slots))
            for (name, _), slots in held.items()
        ]

    def _tell(self, placed: Placement) -> None:
        if placed.lacks_share:
            faults = self._loop.jobs[placed.job].job.machine_faults
            reason = faults[-1].reason if faults else Reason.SHARE_MISSING
            self._loop.apply(placed.job, NeverFits(placed.sentence, reason))
        elif placed.never and self._loop.jobs[placed.job].job.reason is Reason.ACCEPTED:
            self._loop.apply(placed.job, NeverFits(placed.sentence))
        elif placed.never:  # There was more when it came, and there may be again: GPUs go with their driver, say.
            self._loop.apply(placed.job, PlacementDeferred(Reason.WAITING_FOR_SLOTS, f"{placed.sentence} now"))
        elif placed.slots:
            self._loop.apply(placed.job, Placed(placed.slots), placed.slots)
        elif placed.reason is not None:
            self._waits(placed.job, placed.reason, placed.sentence, is_judged=not placed.is_unsure)
