"""The placement of queued jobs: slots are granted to the jobs that are next, and the others hear why they wait.

Which job is next is decided by `core/scheduling/scheduler.py`. This runs on the loop's thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from drumbeat.core.lifecycle.events import NeverFits, Placed, PlacementDeferred
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.scheduling import autoscaling
from drumbeat.core.scheduling.cluster_queue import enqueue
from drumbeat.core.scheduling.occupancy import Occupancy
from drumbeat.core.scheduling.queued_job import Placement, QueuedJob, QueuePosition
from drumbeat.core.scheduling.resource_needs import Slot
from drumbeat.core.scheduling.scheduler import place, review
from drumbeat.core.scheduling.slot_fitting import MachineCapacity, SlotAllocation
from drumbeat.model.api.computes import Machine
from drumbeat.model.states import Reason
from drumbeat.server.database.records import Record
from drumbeat.server.loop.steps import Report
from drumbeat.server.loop.takeovers import Takeovers
from drumbeat.server.loop.unfinished_jobs import is_queued
from drumbeat.server.loop.waiting_jobs import Queue, WaitingJobs, queue_in_order, queue_of, queued_job
from drumbeat.server.loop.work_queue import MAX_BATCH

if TYPE_CHECKING:
    from drumbeat.server.loop.loop import Loop


MAX_TOLD_AT_ONCE = 50
"""So many jobs at the head of a queue are told at each pass why they wait."""
MAX_TOLD_BY_TURNS = 25
"""So many of the others."""
MAX_LOOKED_AT = 1000
"""So many jobs far behind are looked at in a pass, to see whether their wait has changed."""


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


@dataclass
class _Turn:
    """Who far behind is told next, of the queue of a compute. words: what was said of all jobs at the last pass."""

    words: Sequence[Placement | QueuePosition] = ()
    at: int = 0
    """The place in the queue from which on jobs are looked at next."""
    left: int = 0
    """How many haven't been looked at since something changed."""


@dataclass
class _Held:
    """What is held of a compute. version: of the store's slots that it was read at."""

    version: int
    by_attempt: dict[tuple[str, int], SlotAllocation]
    records: dict[tuple[str, int], Record | None] = field(default_factory=dict[tuple[str, int], Record | None])
    """The jobs as they were when it was noted what they wait for, and until when they run."""


class Placer:
    """Places the queued jobs of a loop."""

    def __init__(self, loop: Loop) -> None:
        self._loop, self._takeovers = loop, Takeovers(loop)
        self._queued: dict[str, tuple[Job, QueuedJob]] = {}
        self._waiting: dict[str, WaitingJobs] = {}
        """By compute."""
        self._accepted: set[str] = set()
        """Jobs that don't know yet why they wait."""
        self._held: dict[str, _Held] = {}
        self._occupancies: dict[str, Occupancy] = {}
        self._turns: dict[str, _Turn] = {}
        self.has_untold = False
        """Whether jobs far behind may not know yet what their wait is now."""

    def place(self) -> None:
        """Places the jobs of every compute's queue. The loop does it again at a tick when it fails."""
        self._note_changes()
        self.has_untold = False
        now = self._loop.clock.now()
        queues = {
            name: queue_in_order(jobs, self._loop.store, now) for name, jobs in sorted(self._waiting.items()) if jobs
        }
        for compute, queue in queues.items():
            self._place(compute, queue)

    def _note_changes(self) -> None:
        """Adds the jobs that wait by now, and removes those that don't any more."""
        for name in self._loop.jobs.take_changed():
            record, before = self._loop.jobs.get(name), self._queued.get(name)
            job = record.job if record and is_queued(record.job) else None
            if before and before[0] is job:
                continue
            after = queued_job(job) if job else None
            if before:
                self._waiting[before[0].plan.compute].remove(before[1])
                del self._queued[name]
            self._accepted.discard(name)
            if job and after:
                self._waiting.setdefault(job.plan.compute, WaitingJobs()).add(after)
                self._queued[name] = job, after
                if job.reason is Reason.ACCEPTED:
                    self._accepted.add(name)

    def queue(self, compute: str, *more: Job) -> Queue:
        """The jobs that wait for slots of a compute, and how their users stand. more: as if they waited, too."""
        jobs = [job for job in self._loop.jobs.queued() if job.plan.compute == compute]
        return queue_of([*jobs, *more], self._loop.store, self._loop.clock.now())

    def _place(self, compute: str, queue: Queue) -> None:
        supply = self._loop.supply
        trouble = supply.troubles.get(compute, "" if compute in supply.machines else "it isn't there any more")
        if trouble:
            sentence, reason = f"compute {compute} can't be used: {trouble}", Reason.WAITING_FOR_SLOTS
            self._tell_all(compute, [Placement(one.job, (), reason, sentence, is_unsure=True) for one in queue.jobs])
            return
        if self._takeovers.hand_on(compute, partial(self._placed_without, compute, queue)):
            self._note_changes()
            queue = queue_in_order(self._waiting[compute], self._loop.store, self._loop.clock.now())
        rooms, held = supply.rooms(compute), self.holdings(compute)
        if compute in supply.with_queue or compute in supply.caps:
            self._tell_all(compute, self.placed(compute, queue, rooms, held))
            return
        occupancy = self._occupancies.setdefault(compute, Occupancy((), ()))
        occupancy.update(rooms, held)
        now = self._loop.clock.now()
        self._tell_all(compute, review(queue.jobs, occupancy, now, compute=compute, balances=queue.balances))

    def _placed_without(self, compute: str, queue: Queue, ended: Mapping[str, frozenset[Slot]]) -> list[Placement]:
        """The same as if these jobs, which have ended, had given their slots back."""
        held = self.holdings(compute)
        held = [one for one in held if ended.get(one.job) != frozenset(one.slots)]
        balances = queue.balances.without(ended)
        return self.placed(compute, replace(queue, balances=balances), self._loop.supply.rooms(compute), held)

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

    def holdings(self, compute: str) -> list[SlotAllocation]:
        """Who holds the slots of a compute, and until when at the latest."""
        held = self._held_slots(compute)
        for key, holding in held.by_attempt.items():
            record = self._loop.jobs.get(key[0])
            if key in held.records and held.records[key] is record:
                continue
            held.records[key] = record
            until, obstacle = (record.job.deadline, record.job.obstacle) if record else (None, "")
            if holding.until != until or holding.obstacle != obstacle:
                held.by_attempt[key] = replace(holding, until=until, obstacle=obstacle)
        return [*held.by_attempt.values()]

    def _held_slots(self, compute: str) -> _Held:
        """What each attempt holds. It is read again when slots were taken or given back."""
        before = self._held.get(compute)
        if before and before.version == self._loop.store.slots_version:
            return before
        version, slots = self._loop.store.held_by_attempt(compute)
        earlier = before.by_attempt if before else {}
        kept = {key: one for key, one in earlier.items() if key in slots and one.slots == slots[key].slots}
        by_attempt = {key: kept.get(key) or SlotAllocation(key[0], one.slots) for key, one in slots.items()}
        records = {key: one for key, one in before.records.items() if key in kept} if before else {}
        self._held[compute] = _Held(version, by_attempt, records)
        return self._held[compute]

    # --- telling jobs ---
    def _tell_all(self, compute: str, words: Sequence[Placement | QueuePosition]) -> None:
        """Lets jobs know of what is new to them. Those that wait are told together.

        In a long queue, jobs that are far behind and know of their wait hear of its changes by turns.
        """
        waits: list[tuple[str, PlacementDeferred]] = []
        for at, word in enumerate(words):
            if at >= MAX_TOLD_AT_ONCE and type(word) is QueuePosition and word.job not in self._accepted:
                continue
            event = self._event(word)
            if isinstance(event, PlacementDeferred):
                if not self._is_far_behind(at, word):
                    waits.append((word.job, event))
            elif event is not None:
                self._loop.apply(word.job, event, word.slots if isinstance(word, Placement) else ())
        self._tell_waits([*waits, *self._by_turns(compute, words)])

    def _is_far_behind(self, at: int, word: Placement | QueuePosition) -> bool:
        return at >= MAX_TOLD_AT_ONCE and word.job not in self._accepted

    def _event(self, word: Placement | QueuePosition) -> Placed | NeverFits | PlacementDeferred | None:
        """What a placement is for its job; None = the job knows it.

        A job is `accepted` until it was seen that it fits at all; once it has fitted, it waits whatever there is.
        """
        placed = word.placement if isinstance(word, QueuePosition) else word
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

    def _by_turns(
        self, compute: str, words: Sequence[Placement | QueuePosition]
    ) -> Iterator[tuple[str, PlacementDeferred]]:
        """Those far behind that are told now, of the next ones whose turn it is to be looked at."""
        count, turn = len(words) - MAX_TOLD_AT_ONCE, self._turns.setdefault(compute, _Turn())
        if words != turn.words:
            turn.words, turn.left = words, max(0, count)
        looked_at = count_of_told = 0
        while looked_at < min(turn.left, MAX_LOOKED_AT) and count_of_told < MAX_TOLD_BY_TURNS:
            at = MAX_TOLD_AT_ONCE + (turn.at + looked_at) % count
            looked_at += 1
            is_told = self._is_far_behind(at, words[at]) and words[at].job in self._loop.jobs
            event = self._event(words[at]) if is_told else None
            if isinstance(event, PlacementDeferred):
                count_of_told += 1
                yield words[at].job, event
        turn.at, turn.left = (turn.at + looked_at) % max(1, count), turn.left - looked_at
        self.has_untold = self.has_untold or turn.left > 0

    def _tell_waits(self, waits: Sequence[tuple[str, PlacementDeferred]]) -> None:
        reports = [Report(job, event) for job, event in waits]
        for start in range(0, len(reports), MAX_BATCH):
            self._loop.apply_all(reports[start : start + MAX_BATCH])
        for one in reports:
            one.done.result()


def _may_be_awaited(one: Placement) -> bool:
    return one.reason not in (None, Reason.WAITING_FOR_QUOTA)
