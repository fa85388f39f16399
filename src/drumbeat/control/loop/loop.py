"""The loop: the one thread that changes jobs.

An event goes in, `decide` says what becomes of the job, and job, story, effects and slots are committed together. Only
then does anybody hear of it. Whatever can block (engines, files) runs elsewhere and comes back as an event.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeVar

from drumbeat.core.life.events import Event, Granted, JudgeDue, NeverFits, TimeUp, Waits
from drumbeat.core.life.job import Job
from drumbeat.core.life.machine import JUDGE_AFTER, decide
from drumbeat.core.need import Slot
from drumbeat.core.placement import Holding, Placed, Room, Waiting, enqueue, place
from drumbeat.ports import Change, Clock, Machine, Record, Store
from drumbeat.protocol.errors import ConflictError, StaleError, StorageError, UnreachableError
from drumbeat.protocol.faults import faultpoint
from drumbeat.protocol.states import Reason, State

T = TypeVar("T")
log = logging.getLogger(__name__)

CALL_S = 60.0
"""How long somebody waits for what is done on the loop's thread."""
TICK_S = 0.5
"""How often deadlines are looked at."""

SURE_S = 5.0
"""How long after a beat nobody can have replaced this server; stores wait three times as long before they do."""


@dataclass(frozen=True)
class Booking:
    """Slots for a job, and the compute's count of bookings at which they were free."""

    slots: tuple[Slot, ...]
    booked: int


class Loop:
    """Owns every unfinished job that this server holds the lease of.

    is_alone: nobody else is over this store. Else what is kept in memory is only to be believed while `is_sure`.
    """

    def __init__(self, store: Store, clock: Clock, announce: Callable[[str], None], *, is_alone: bool = True) -> None:
        self.store, self.clock, self.announce, self.is_alone = store, clock, announce, is_alone
        self.token = 0
        self.address = ""
        self.look_around: Callable[[], None] = _nothing
        """What servers that share a store do at each tick: see `sharing`."""
        self.jobs: dict[str, Record] = {}
        self._beat_at = 0.0
        self._due_at: dict[str, dict[datetime, float]] = {}
        """The deadlines of each job, on the monotonic clock: since it was given them or this server began."""
        self.machines: dict[str, list[Machine]] = {}
        self.troubles: dict[str, str] = {}
        """Computes that no job can start on now, and why."""
        self.with_queue: frozenset[str] = frozenset()
        """Computes whose engines choose machines, and wait for them, themselves."""
        self.has_effects = threading.Event()
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._has_stopped = False
        self.must_place = True
        """Something has changed that placement depends on."""

    # --- the thread -------------------------------------------------------------------------------------------
    def open(self) -> None:
        """Takes the lease and reads what is unfinished; a server that isn't alone begins with nothing."""
        self.jobs, at = {}, self.clock.monotonic()
        self.token = self.store.lease(is_alone=self.is_alone, address=self.address)
        self._beat_at = at
        records = self.store.unfinished() if self.is_alone else []
        self.jobs = {record.job.name: record for record in records}
        self.has_effects.set()

    @property
    def is_sure(self) -> bool:
        """Whether nobody can have taken this server's jobs: not after it was stopped, or cut off from the store."""
        return self.is_alone or self.clock.monotonic() - self._beat_at < SURE_S

    def holds(self, name: str) -> bool:
        """Whether a job is this server's for certain, and what it knows of it the latest."""
        return self.is_alone or (name in self.jobs and self.is_sure)

    def start(self) -> None:
        """Begins. Without a thread, `call`, `tick` and `place` do the same for whoever calls them: a simulation."""
        self._thread = threading.Thread(target=self._run, name="control", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread after the calls that wait already, and hands over what this server holds."""
        self._has_stopped = True
        self._calls.put(None)
        if self._thread:
            self._thread.join(timeout=5)
        with contextlib.suppress(StorageError):
            self.store.leave(self.token)

    def call(self, work: Callable[[], T]) -> T:
        """Runs `work` on the loop's thread and gives its result, or raises what it raised."""
        if self._thread is None:
            return work()
        if self._has_stopped:
            raise UnreachableError("the server is stopping", fix="Ask again when it is back.")
        done: Future[T] = Future()

        def run() -> None:
            if not done.set_running_or_notify_cancel():
                return
            try:
                done.set_result(work())
            except BaseException as error:  # noqa: BLE001 (handed to the caller, whatever it is)
                done.set_exception(error)

        self._calls.put(run)
        try:
            return done.result(timeout=CALL_S)
        except TimeoutError:
            if done.cancel() or not done.done():  # What has begun may be done all the same.
                fix = "See whether it was done after all, and try again."
                raise UnreachableError("the server's store doesn't answer", fix=fix) from None
            raise

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
        """Tells the store that this server lives, looks around for others, and at deadlines."""
        self.beat()
        self.look_around()
        troubles: list[Exception] = []
        for job in [record.job for record in self.jobs.values() if record.job.state is State.RUNNING]:
            if event := self._due(job):
                try:
                    self.apply(job.name, event)
                except Exception as trouble:  # noqa: BLE001 (the others are due all the same)
                    troubles.append(trouble)
        if troubles:
            raise troubles[0]

    def _due(self, job: Job) -> Event | None:
        """What a job's time has come for. By the monotonic clock: the wall clock may jump."""
        now, at = self.clock.now(), self.clock.monotonic()
        if job.deadline and at >= self._on_monotonic(job.name, job.deadline, now, at):
            return TimeUp()
        if job.judge_at and at >= self._on_monotonic(job.name, job.judge_at, now, at, JUDGE_AFTER):
            return JudgeDue()
        return None

    def _on_monotonic(
        self, name: str, deadline: datetime, now: datetime, at: float, most: timedelta = timedelta.max
    ) -> float:
        """When that is, at most so long from now. now, at: one moment on both clocks; what they said first counts."""
        left = min(deadline - now, most).total_seconds()
        return self._due_at.setdefault(name, {}).setdefault(deadline, at + left)

    def beat(self) -> None:
        """Keeps the lease. A server that was silent for so long that it was replaced comes back with nothing."""
        at = self.clock.monotonic()
        try:
            self.store.beat(self.token)
        except StaleError:
            log.warning("server %d was silent and has been replaced; it goes on as a new one", self.token)
            self.is_alone = False
            self.open()
        else:
            self._beat_at = at

    # --- one job ----------------------------------------------------------------------------------------------
    def apply(self, name: str, event: Event, booking: Booking | None = None) -> Job:
        """What becomes of a job by an event, written down before it is told. Only on the loop's thread."""
        record = self.jobs.get(name) or self.store.load(name)
        now, at = self.clock.now(), self.clock.monotonic()
        decision = decide(record.job, event, now)
        if decision.job == record.job:
            return record.job
        change = Change(decision.job, record.version, decision.story, decision.effects)
        if booking:
            change = replace(change, reserve=booking.slots, booked=booking.booked)
        self._commit(name, record, change)
        if decision.job.state is State.RUNNING:
            for deadline in filter(None, (decision.job.deadline, decision.job.judge_at)):
                self._on_monotonic(name, deadline, now, at)
        if decision.effects:
            self.has_effects.set()
        if decision.job.state is State.QUEUED or decision.job.state.is_terminal:
            self.must_place = self.must_place or not isinstance(event, Waits)
        if decision.job.waits_for not in ("", record.job.waits_for):
            self.must_place = True  # The jobs behind it say so.
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
        except StorageError:
            if not self.is_alone:  # It may be written, and its answer lost: the store knows, and `sharing` asks it.
                self.jobs.pop(name, None)
            raise
        if change.job.state.is_terminal:
            self.jobs.pop(name, None)
            self._due_at.pop(name, None)
        else:
            self.jobs[name] = replace(record, job=change.job, version=record.version + 1)

    def add(self, record: Record) -> None:
        """A job that has just been submitted."""
        self.jobs[record.job.name] = record
        self.must_place = True
        self.announce(record.job.name)

    def freed(self) -> None:
        """Slots were given back."""
        self.must_place = True

    def furnish(self, machines: dict[str, list[Machine]], troubles: dict[str, str]) -> None:
        """What there is to place jobs on, by compute. Only on the loop's thread."""
        self.machines, self.troubles = machines, troubles
        self.must_place = True

    # --- placement --------------------------------------------------------------------------------------------
    def place(self) -> None:
        """Grants slots to whoever is next, and tells the others why they wait. What fails is done again at a tick."""
        self.must_place = False
        try:
            everybody = self.everybody()
            for compute in sorted({job.plan.compute for job in self.jobs_queued(self.jobs)}):
                queue = [waiting(job) for job in self.jobs_queued(everybody) if job.plan.compute == compute]
                self._place(compute, queue, everybody)
        except Exception:
            self.must_place = True
            raise

    def everybody(self) -> dict[str, Record]:
        """Every unfinished job, whoever holds it: all servers see one queue, and each grants to its own jobs."""
        return self.jobs if self.is_alone else {record.job.name: record for record in self.store.unfinished()}

    @staticmethod
    def jobs_queued(records: dict[str, Record]) -> list[Job]:
        """Those that wait for slots."""
        return [record.job for record in list(records.values()) if record.job.state is State.QUEUED]

    def _place(self, compute: str, queue: list[Waiting], everybody: dict[str, Record]) -> None:
        trouble = self.troubles.get(compute, "" if compute in self.machines else "it isn't there any more")
        if trouble:
            for one in queue:
                self._wait_for(compute, one.job, trouble)
            return
        booked = self.store.booked(compute)
        rooms = [Room(m.name, m.cpus, m.gpus, m.unusable) for m in self.machines.get(compute, [])]
        held = self.holdings(compute, everybody)
        for placed in self.placed(compute, queue, rooms, held):
            if placed.job not in self.jobs:
                continue
            try:
                self._tell(placed, booked)
            except ConflictError:  # Another server was quicker; what follows was chosen by what was there before.
                self.must_place = True
                return
            booked += bool(placed.slots)

    def placed(self, compute: str, queue: list[Waiting], rooms: list[Room], held: list[Holding]) -> list[Placed]:
        """A word for every job of a compute's queue."""
        if compute in self.with_queue:
            return enqueue(queue, rooms, compute=compute)
        return place(queue, rooms, held, self.clock.now(), compute=compute)

    def _wait_for(self, compute: str, job: str, trouble: str) -> None:
        """For a compute that can't be used: it may be again."""
        if job in self.jobs:
            sentence = f"compute {compute} can't be used: {trouble}"
            self._waits(job, Reason.WAITING_FOR_SLOTS, sentence, is_judged=False)

    def _waits(self, job: str, reason: Reason, sentence: str, *, is_judged: bool) -> None:
        """A job is `accepted` until it was seen that it fits at all; once it has fitted, it waits whatever there is."""
        is_new = not is_judged and self.jobs[job].job.reason is Reason.ACCEPTED
        self.apply(job, Waits(Reason.ACCEPTED if is_new else reason, sentence))

    def holdings(self, compute: str, everybody: dict[str, Record]) -> list[Holding]:
        """Who holds the slots of a compute, and until when at the latest."""
        held: dict[tuple[str, int], list[Slot]] = {}
        for one in self.store.reservations(compute):
            held.setdefault((one.job, one.attempt), []).append(one.slot)
        jobs = {name: record.job for name, record in everybody.items()}
        return [
            Holding(name, tuple(slots), jobs[name].deadline, jobs[name].waits_for)
            if name in jobs
            else Holding(name, tuple(slots))
            for (name, _), slots in held.items()
        ]

    def _tell(self, placed: Placed, booked: int) -> None:
        if placed.never and self.jobs[placed.job].job.reason is Reason.ACCEPTED:
            self.apply(placed.job, NeverFits(placed.sentence))
        elif placed.never:  # There was more when it came, and there may be again: GPUs go with their driver, say.
            self.apply(placed.job, Waits(Reason.WAITING_FOR_SLOTS, f"{placed.sentence} now"))
        elif placed.slots:
            self.apply(placed.job, Granted(placed.slots), Booking(placed.slots, booked))
        elif placed.reason is not None:
            self._waits(placed.job, placed.reason, placed.sentence, is_judged=not placed.is_unsure)


def _nothing() -> None:
    """Nobody called; only the time has come."""


def waiting(job: Job) -> Waiting:
    """A queued job as placement sees it."""
    limit = job.policy.timeout_s
    lasts = timedelta(seconds=limit + job.plan.grace_s) if limit is not None else None
    return Waiting(job.name, job.need, job.policy.priority, job.submitted_at, lasts, job.avoided)
