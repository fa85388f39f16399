"""The loop: the one thread that changes jobs.

An event goes in, `decide` says what becomes of the job, and job, story, effects and slots are committed together. Only
then does anybody hear of it. Whatever can block (engines, files) runs elsewhere and comes back as an event.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TypeVar

from drumbeat.core.events import CancelRequested, Event, Granted, NeverFits, Tick, Waits
from drumbeat.core.job import Job, Slot
from drumbeat.core.machine import decide
from drumbeat.core.placement import Holding, Placed, Room, Waiting, place
from drumbeat.core.states import State
from drumbeat.ports import Change, Clock, Machine, Record, Store
from drumbeat.protocol.errors import ConflictError, StaleError, StorageError, UnreachableError
from drumbeat.protocol.faults import faultpoint

T = TypeVar("T")
log = logging.getLogger(__name__)

TICK_S = 0.5
"""How often deadlines are looked at."""


class Loop:
    """Owns every unfinished job that this server holds the lease of."""

    def __init__(self, store: Store, clock: Clock, announce: Callable[[str], None]) -> None:
        self.store, self.clock, self.announce = store, clock, announce
        self.token = 0
        self.jobs: dict[str, Record] = {}
        self.machines: dict[str, list[Machine]] = {}
        self.has_effects = threading.Event()
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._has_stopped = False
        self.must_place = True
        """Something has changed that placement depends on."""

    # --- the thread -------------------------------------------------------------------------------------------
    def open(self) -> None:
        """Takes the lease and reads what is unfinished."""
        self.token = self.store.lease(is_alone=True)
        self.jobs = {record.job.name: record for record in self.store.unfinished()}
        self.has_effects.set()

    def start(self) -> None:
        """Begins. Without a thread, `call`, `tick` and `place` do the same for whoever calls them: a simulation."""
        self._thread = threading.Thread(target=self._run, name="control", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread after the calls that wait already."""
        self._has_stopped = True
        self._calls.put(None)
        if self._thread:
            self._thread.join(timeout=5)

    def call(self, work: Callable[[], T]) -> T:
        """Runs `work` on the loop's thread and gives its result, or raises what it raised."""
        if self._thread is None:
            return work()
        if self._has_stopped:
            raise UnreachableError("the server is stopping", fix="Ask again when it is back.")
        done: Future[T] = Future()

        def run() -> None:
            try:
                done.set_result(work())
            except BaseException as error:  # noqa: BLE001 (handed to the caller, whatever it is)
                done.set_exception(error)

        self._calls.put(run)
        return done.result(timeout=60)

    def _run(self) -> None:
        next_tick = self.clock.monotonic()
        while True:
            try:
                work = self._calls.get(timeout=max(0.0, next_tick - self.clock.monotonic()))
            except queue.Empty:
                work = _nothing
            if work is None:
                return
            self._guarded(work)
            if self.clock.monotonic() >= next_tick:
                next_tick = self.clock.monotonic() + TICK_S
                self._guarded(self.tick)
            if self.must_place and self._calls.empty():
                self._guarded(self.place)

    def _guarded(self, work: Callable[[], None]) -> None:
        """A store that refuses now is asked again at the next tick; nothing was changed."""
        try:
            work()
        except StorageError as error:
            log.warning("the store refused: %s", error)
        except Exception:
            log.exception("the loop goes on after an error that it should not have met")

    def tick(self) -> None:
        """Tells the store that this server lives, and looks at deadlines."""
        self.store.beat(self.token)
        now = self.clock.now()
        for name, record in list(self.jobs.items()):
            deadline = record.job.deadline
            if record.job.state is State.RUNNING and deadline and now >= deadline:
                self.apply(name, Tick())

    # --- one job ----------------------------------------------------------------------------------------------
    def apply(self, name: str, event: Event, *, reserve: tuple[Slot, ...] = ()) -> Job:
        """What becomes of a job by an event, written down before it is told. Only on the loop's thread."""
        record = self.jobs.get(name) or self.store.load(name)
        decision = decide(record.job, event, self.clock.now())
        if decision.job == record.job:
            return record.job
        change = Change(decision.job, record.version, decision.story, decision.effects, reserve=reserve)
        self._commit(name, record, change)
        if decision.effects:
            self.has_effects.set()
        if decision.job.state is State.QUEUED or decision.job.state.is_terminal:
            self.must_place = self.must_place or not isinstance(event, Waits)
        self.announce(name)
        return decision.job

    def _commit(self, name: str, record: Record, change: Change) -> None:
        faultpoint("loop.before_commit")
        try:
            self.store.commit(self.token, [change])
            faultpoint("loop.after_commit")
        except StaleError:
            self.jobs.pop(name, None)  # Another server holds it now.
            raise
        if change.job.state.is_terminal:
            self.jobs.pop(name, None)
        else:
            self.jobs[name] = replace(record, job=change.job, version=record.version + 1)

    def add(self, record: Record) -> None:
        """A job that has just been submitted."""
        self.jobs[record.job.name] = record
        self.must_place = True
        self.announce(record.job.name)

    def cancel(self, name: str, by: str) -> Job:
        """Raises NotFoundError; ConflictError for a job that is past stopping."""
        job = (self.jobs.get(name) or self.store.load(name)).job
        if job.state is State.FINALIZING:
            raise ConflictError(f"job {name} is done and keeps its results", fix="It ends by itself in a moment.")
        if job.state.is_terminal and job.state is not State.CANCELED:
            raise ConflictError(f"job {name} has ended already: {job.state}")
        return self.apply(name, CancelRequested(by))

    def freed(self) -> None:
        """Slots were given back."""
        self.must_place = True

    # --- placement --------------------------------------------------------------------------------------------
    def place(self) -> None:
        """Grants slots to whoever is next, and tells the others why they wait."""
        self.must_place = False
        queued = [r.job for r in self.jobs.values() if r.job.state is State.QUEUED]
        for compute in sorted({job.plan.compute for job in queued}):
            mine = [job for job in queued if job.plan.compute == compute]
            for placed in self._placed(compute, mine):
                self._tell(placed)

    def _placed(self, compute: str, jobs: list[Job]) -> list[Placed]:
        rooms = [Room(m.name, m.cpus, m.gpus) for m in self.machines.get(compute, [])]
        return place([waiting(job) for job in jobs], rooms, self.holdings(compute), self.clock.now(), compute=compute)

    def holdings(self, compute: str) -> list[Holding]:
        """Who holds the slots of a compute, and until when at the latest."""
        held: dict[tuple[str, int], list[Slot]] = {}
        for one in self.store.reservations(compute):
            held.setdefault((one.job, one.attempt), []).append(one.slot)
        return [Holding(job, tuple(slots), self._ends(job)) for (job, _), slots in held.items()]

    def _ends(self, name: str) -> datetime | None:
        record = self.jobs.get(name)
        return record.job.deadline if record else None

    def _tell(self, placed: Placed) -> None:
        if placed.never:
            self.apply(placed.job, NeverFits(placed.sentence))
        elif placed.slots:
            self.apply(placed.job, Granted(placed.slots), reserve=placed.slots)
        elif placed.reason is not None:
            self.apply(placed.job, Waits(placed.reason, placed.sentence))


def _nothing() -> None:
    """Nobody called; only the time has come."""


def waiting(job: Job) -> Waiting:
    """A queued job as placement sees it."""
    limit = job.policy.timeout_s
    lasts = timedelta(seconds=limit + job.plan.grace_s) if limit is not None else None
    return Waiting(job.name, job.need, job.policy.priority, job.submitted_at, lasts)
