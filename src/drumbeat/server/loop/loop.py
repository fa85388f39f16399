"""The loop: the one thread that changes jobs.

An event goes in, `decide` says what becomes of the job, and the job, its new events, effects and slots are committed
together. Only then is it published. Whatever can block (engines, files) runs elsewhere and comes back as an event.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from drumbeat.core.lifecycle.events import Effect, Event, JobEvent, PlacementDeferred
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.lifecycle.state_machine import decide
from drumbeat.core.lifecycle.transitions import then, with_effects
from drumbeat.core.scheduling.resource_needs import Slot
from drumbeat.model.errors import NotFoundError, StaleError, StandbyError, StorageError
from drumbeat.model.failpoints import failpoint
from drumbeat.model.states import State
from drumbeat.ports.clock import Clock
from drumbeat.server.database import SqlStore
from drumbeat.server.database.records import Record, TakenEffect
from drumbeat.server.loop.bus import Bus, gang_topic, job_topic
from drumbeat.server.loop.deadlines import DeadlineTimes, has_deadlines
from drumbeat.server.loop.growth_offers import Grower
from drumbeat.server.loop.kept_gangs import KeptGangs
from drumbeat.server.loop.ownership import LEASE_TIMEOUT
from drumbeat.server.loop.placer import Placer, Supply
from drumbeat.server.loop.refused_writes import RefusedWrites
from drumbeat.server.loop.steps import JobWrite, Report, ReportBatch, Step, job_write
from drumbeat.server.loop.unfinished_jobs import UnfinishedJobs
from drumbeat.server.loop.work_queue import WaitingReports, WorkQueue

T = TypeVar("T")
log = logging.getLogger(__name__)

TICK_INTERVAL_S = 0.5
"""How often the server renews its lease, and checks deadlines."""
PLACEMENT_PAUSE = 3
"""So many times as long as a placement has taken passes before the next one: long queues leave time for agents."""
FRESH_S = 0.6 * LEASE_TIMEOUT.total_seconds()
"""How long after the lease was renewed no other server can have taken it."""


@dataclass(frozen=True)
class Applied:
    """A change of a job that was committed."""

    before: Job
    job: Job
    events: tuple[JobEvent, ...]
    at: datetime
    took_s: float
    """Seconds that deciding and committing took."""


class Loop:
    """Owns every unfinished job while this server is the active one.

    address: where agents on this machine call the server. url: where clients do.
    """

    def __init__(self, store: SqlStore, clock: Clock, bus: Bus, address: str = "", url: str = "") -> None:
        self.store, self.clock, self.bus = store, clock, bus
        self.is_active = False
        """Whether this server has the lease, as far as it knows."""
        self.on_replaced: Callable[[], None] = _nothing
        """Is called once, from any thread, when another server has taken the lease."""
        self._address, self._url = address, url
        self.jobs = UnfinishedJobs()
        self._unsure: set[str] = set()
        """Jobs whose last change may have been written or not: the store didn't answer."""
        self._beat_at = 0.0
        self._deadlines = DeadlineTimes()
        self.supply = Supply()
        self.placer, self.grower = Placer(self), Grower(self)
        self.kept_gangs = KeptGangs(self)
        """Nodes of ended jobs that other jobs can take over."""
        self.has_effects = threading.Event()
        self._queue = WorkQueue()
        self._thread: threading.Thread | None = None
        self.refused_writes = RefusedWrites()
        self.observers: list[Callable[[Applied], None]] = []
        """Called on the loop's thread after each committed change of a job; they must not block."""
        self.closing_effects: Callable[[Job], tuple[Effect, ...]] = _no_effects
        """Returns what is to be done beside the rest when a job has ended. It must not raise."""
        self.notice_effects: Callable[[Job, str], tuple[Effect, ...]] = _no_effects
        """Returns what is to be done when a condition of a job was met, as a sentence says. It must not raise."""
        self.must_place = True
        """Something has changed that placement depends on."""

    # --- the thread -------------------------------------------------------------------------------------------
    def open(self) -> bool:
        """Takes the lease and reads the unfinished jobs; returns False while another server is the active one."""
        at = self.clock.monotonic()
        if not self.store.take_lease(self._address, self._url):
            return False
        self._beat_at = at
        self.jobs.replace(self.store.unfinished())
        self.kept_gangs.read(self.store.outbox())
        self.is_active = True
        self.has_effects.set()
        return True

    @property
    def is_current(self) -> bool:
        """Whether the jobs in memory are current: no longer after this server stood still, or was cut off from the
        store, for so long that another one may have taken the lease.
        """
        return self.is_active and (self.store.is_alone or self.beat_age_s < FRESH_S)

    @property
    def beat_age_s(self) -> float:
        """Seconds since this server last renewed its lease."""
        return self.clock.monotonic() - self._beat_at

    @property
    def is_running(self) -> bool:
        """Whether the loop's thread lives; in a simulation, which has none, it does."""
        return self._thread is None or self._thread.is_alive()

    def record(self, name: str) -> Record:
        """A job as it is now: from memory while that is current, else from the store. Raises NotFoundError."""
        return (self.jobs.get(name) if self.is_current else None) or self.store.load(name)

    def is_there(self, job: Job) -> bool:
        """Whether a job of before still exists: it may have been deleted, and another one may have its name."""
        try:
            return self.record(job.name).job.unique_name == job.unique_name
        except NotFoundError:
            return False

    def held(self, name: str) -> Record:
        """A job from the store. Raises StandbyError when another server has become the active one, NotFoundError."""
        self.store.require_lease()
        return self.store.load(name)

    def start(self) -> None:
        """Starts the thread. A simulation has none: there `call`, `tick` and `place` run on the caller's thread."""
        self._thread = threading.Thread(target=self._run, name="control", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread after the calls in its queue, and gives up the lease."""
        self._queue.end()
        if self._thread:
            self._thread.join(timeout=5)
        with contextlib.suppress(StorageError):
            self.store.leave()

    def step_down(self) -> None:
        """Ends the thread: another server has become the active one, and nothing here is current any more."""
        if self.is_active:
            self.is_active = False
            log.warning("this server was silent, and another one has become the active one")
            self._queue.end()
            self.jobs.clear()
            self.on_replaced()

    def call(self, work: Callable[[], T]) -> T:
        """Runs `work` on the loop's thread and gives its result, or raises what it raised."""
        return work() if self._thread is None else self._queue.call(work)

    def report(self, name: str, event: Event) -> Future[Job]:
        """Has an event applied, together with others that wait; `result_of` waits for the job after it."""
        if self._thread:
            return self._queue.report(name, event)
        report = Report(name, event)
        self.apply_all([report])
        return report.done

    def _run(self) -> None:
        next_tick = next_place = self.clock.monotonic()
        while True:
            due = min(next_tick, next_place) if self.must_place else next_tick
            try:
                work = self._queue.next(max(0.0, due - self.clock.monotonic()))
            except queue.Empty:
                work = _nothing
            if work is None:
                return
            if isinstance(work, WaitingReports):
                self._answer(work.all)
            else:
                self._guarded(work)
            if self.clock.monotonic() >= next_tick:
                next_tick = self.clock.monotonic() + TICK_INTERVAL_S
                self._guarded(self.tick)
            began = self.clock.monotonic()
            is_late = began >= next_place + TICK_INTERVAL_S
            if self.must_place and began >= next_place and (is_late or self._queue.is_empty()):
                is_done = self._guarded(self.place)
                took_s = self.clock.monotonic() - began
                next_place = began + (1 + PLACEMENT_PAUSE) * took_s if is_done else next_tick

    def _answer(self, reports: Sequence[Report]) -> None:
        """Applies reports. An error that concerns all of them is each one's answer."""
        try:
            self.apply_all(reports)
        except Exception as error:  # noqa: BLE001 (handed to the callers, whatever it is)
            for report in reports:
                if not report.done.done():
                    report.done.set_exception(error)

    def _guarded(self, work: Callable[[], None]) -> bool:
        """Whether it was done. A store that refuses now is asked again at the next tick; nothing was changed."""
        try:
            work()
        except StorageError as error:
            log.warning("the store refused: %s", error)
            self._note_refusal(error)
        except Exception:
            log.exception("the loop continues after an unexpected error")
        else:
            return True
        return False

    def _note_refusal(self, error: StorageError) -> None:
        self.refused_writes.add(str(error), self.clock.monotonic())
        self._ring_for_all()

    def _ring_for_all(self) -> None:
        for name in self.jobs:
            self.bus.publish(job_topic(name))

    def tick(self) -> None:
        """Renews the lease, reads again what is unsure, and applies the deadlines that have passed."""
        self.beat()
        self._reread()
        troubles: list[Exception] = []
        now, at = self.clock.now(), self.clock.monotonic()
        for job in [record.job for record in self.jobs.values() if has_deadlines(record.job)]:
            if event := self._deadlines.due(job, now, at):
                try:
                    self.apply(job.name, event)
                except Exception as trouble:  # noqa: BLE001 (the others are due all the same)
                    troubles.append(trouble)
        self.grower.look()
        self.must_place = self.must_place or self.placer.has_untold
        if self.refused_writes.clear_old(self.clock.monotonic()):
            self._ring_for_all()
        if troubles:
            raise troubles[0]

    def beat(self) -> None:
        """Renews the lease. Raises StandbyError when another server has taken it."""
        at = self.clock.monotonic()
        try:
            self.store.renew_lease()
        except StandbyError:
            self.step_down()
            raise
        self._beat_at = at

    def _reread(self) -> None:
        for name in list(self._unsure):
            record = self.store.load(name)
            self._unsure.discard(name)
            if not record.job.state.is_terminal:
                self.add(record)
            self.has_effects.set()

    # --- one job ----------------------------------------------------------------------------------------------
    def tell(self, name: str, event: Event) -> None:
        """Applies an event on the loop's thread, from any other."""
        self.call(lambda: self.apply(name, event))

    def apply(self, name: str, event: Event, reserve: Sequence[Slot] = (), takes: TakenEffect | None = None) -> Job:
        """Decides what an event makes of a job, commits it, and publishes it. Only on the loop's thread.

        reserve: the slots that the job is given. takes: as `job_write` has it. Raises StandbyError, NotFoundError.
        """
        if not self.is_current:
            self.store.require_lease()
        record = self.jobs.get(name) or self.store.load(name)
        step = self._step(record, event)
        if step is None:
            return record.job
        self._commit([job_write([step], reserve, takes)])
        self._publish([step])
        return step.job

    def apply_all(self, reports: Sequence[Report]) -> None:
        """Applies events in their order and answers each; what concerns one attempt is committed together.

        One that is refused is answered with its error, and the others count. Only on the loop's thread.
        """
        if not self.is_current:
            self.store.require_lease()
        batch = ReportBatch()
        for report in reports:
            try:
                record, step = self._next_step(batch, report)
                if not batch.takes(step):  # It is decided again on what the store has then.
                    self._finish(batch)
                    batch = ReportBatch()
                    record, step = self._next_step(batch, report)
            except Exception as error:  # noqa: BLE001 (handed to the caller, whatever it is)
                report.done.set_exception(error)
                continue
            batch.add(report, record.job if step is None else step.job, step)
        self._finish(batch)

    def _next_step(self, batch: ReportBatch, report: Report) -> tuple[Record, Step | None]:
        """Returns the job as it is after a batch, and what a report makes of it."""
        record = batch.record(report.name) or self.jobs.get(report.name) or self.store.load(report.name)
        return record, self._step(record, report.event)

    def _finish(self, batch: ReportBatch) -> None:
        """Commits a batch, and answers its reports."""
        failed = self._commit_all(batch.writes())
        self._publish([step for step in batch.steps if step.job.name not in failed])
        for report, job in batch.answers:
            if error := failed.get(report.name):
                report.done.set_exception(error)
            else:
                report.done.set_result(job)

    def _commit_all(self, writes: Sequence[JobWrite]) -> dict[str, Exception]:
        """Commits writes together, or each for itself where one is stale; returns what failed, by job."""
        try:
            self._commit(writes)
        except StaleError as error:
            if len(writes) == 1:
                return {writes[0].change.job.name: error}
            return {name: each for one in writes for name, each in self._commit_all([one]).items()}
        except Exception as error:  # noqa: BLE001 (handed to the callers, whatever it is)
            return {one.change.job.name: error for one in writes}
        return {}

    def _step(self, record: Record, event: Event) -> Step | None:
        """Decides what an event makes of a job; None = it changes nothing."""
        now, at = self.clock.now(), self.clock.monotonic()
        decision = decide(record.job, event, now)
        if decision.job == record.job:
            return None
        for sentence in decision.notices:
            decision = then(decision, with_effects(decision.job, *self.notice_effects(decision.job, sentence)))
        if decision.job.state.is_terminal and not record.job.state.is_terminal:
            decision = self.kept_gangs.decided(decision)
            decision = then(decision, with_effects(decision.job, *self.closing_effects(decision.job)))
        return Step(record, event, decision, now, at)

    def _publish(self, steps: Sequence[Step]) -> None:
        """Lets everybody hear of changes that are committed."""
        for step in steps:
            self._deadlines.note(step.job, step.now, step.at)
            if step.decision.effects:
                self.has_effects.set()
            if step.job.state is State.QUEUED or step.job.state.is_terminal:
                self.must_place = self.must_place or not isinstance(step.event, PlacementDeferred)
            if step.job.obstacle not in ("", step.record.job.obstacle):
                self.must_place = True  # The jobs behind it say so.
        for name in dict.fromkeys(step.job.name for step in steps):
            self.bus.publish(job_topic(name))
        for name in dict.fromkeys(step.job.name for step in steps if step.changes_directive):
            self.bus.publish(gang_topic(name))
        for step in steps:
            self._observe(
                Applied(step.record.job, step.job, step.decision.events, step.now, self.clock.monotonic() - step.at)
            )

    def _observe(self, applied: Applied) -> None:
        for observer in self.observers:
            try:
                observer(applied)
            except Exception:
                log.exception("an observer of changes failed")

    def _commit(self, writes: Sequence[JobWrite]) -> None:
        if not writes:
            return
        failpoint("loop.before_commit")
        try:
            self.store.commit([one.change for one in writes])
            failpoint("loop.after_commit")
        except StandbyError:
            self.step_down()
            raise
        except StaleError:
            if len(writes) == 1:
                self._doubt(writes[0].change.job.name)
            raise
        except StorageError as error:
            self._note_refusal(error)
            if not self.store.is_alone:  # It may be written, and the answer lost.
                for one in writes:
                    self._doubt(one.change.job.name)
            raise
        if self.refused_writes.clear():
            self._ring_for_all()
        for one in writes:
            self._remember(one.after)
            self.kept_gangs.committed(one.change.job, one.change.effects)

    def _remember(self, record: Record) -> None:
        if record.job.state.is_terminal:
            self.jobs.pop(record.job.name, None)
            self._deadlines.forget(record.job.name)
        else:
            self.jobs[record.job.name] = record

    def _doubt(self, name: str) -> None:
        """Forgets what memory has of a job; the next tick reads it from the store."""
        self.jobs.pop(name, None)
        self._unsure.add(name)

    def add(self, record: Record) -> None:
        """Takes in a job that has just been submitted or read again."""
        self.jobs[record.job.name] = record
        self.kept_gangs.committed(record.job, ())
        self.must_place = True
        self.bus.publish(job_topic(record.job.name))
        self.bus.publish(gang_topic(record.job.name))

    def freed(self) -> None:
        """Has the queue looked at again, after slots were given back."""
        self.must_place = True

    def furnish(self, supply: Supply) -> None:
        """Replaces what jobs are placed on. Only on the loop's thread."""
        self.supply = supply
        self.must_place = True

    # --- placement --------------------------------------------------------------------------------------------
    def place(self) -> None:
        """Grants slots to the jobs that are next, and records why the others wait. What fails is retried at a tick."""
        self.must_place = False
        try:
            self.placer.place()
        except Exception:
            self.must_place = True
            raise


def _no_effects(_job: Job, _sentence: str = "") -> tuple[Effect, ...]:
    return ()


def _nothing() -> None:
    """Wakes the loop at a tick, without a call."""
