"""Submits the jobs of schedules when they are due, on the active server.

A time is decided once: the decision is written before its job is submitted, and the submission has a key that is made
of the schedule and the time. Whatever dies in between, the next server submits what was decided, and a job that was
submitted before is found by its key.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from datetime import datetime

from drumbeat.core.planning.plan import UnusableComputeError
from drumbeat.core.schedules.decision import Progress, decide, format_due
from drumbeat.core.schedules.job_requests import job_request
from drumbeat.model.errors import DrumbeatError, StorageError, UnreachableError
from drumbeat.model.failpoints import failpoint
from drumbeat.server.loop.loop import Loop
from drumbeat.server.schedules.schedules import Schedules, UnavailableUserError
from drumbeat.server.schedules.stored_schedule import StoredSchedule, run_word

log = logging.getLogger(__name__)

LONGEST_WAIT_S = 20.0
"""How long it sleeps at most: the clock of the machine may be set."""
RETRY_S = 2.0
"""How often it looks while something waits: for a job's end, or for a compute or the database that is away."""


class ScheduleRunner:
    """Runs the schedules. `run_due` is called on a thread of its own."""

    def __init__(self, loop: Loop, schedules: Schedules) -> None:
        self._loop, self._schedules = loop, schedules
        self._woken, self._stopping = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="schedules", daemon=True)
        schedules.on_change = self._woken.set

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread after the current submission."""
        self._stopping.set()
        self._woken.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._woken.clear()
            try:
                wait_s = self.run_due()
            except Exception as error:
                wait_s = RETRY_S
                is_own = isinstance(error, DrumbeatError)
                log.warning("the schedules are looked at again: %s", error, exc_info=not is_own)
            self._woken.wait(wait_s)

    def run_due(self) -> float:
        """Submits the jobs that are due. Returns in how many seconds to look again."""
        wait_s = LONGEST_WAIT_S
        for stored in self._schedules.all():
            if self._stopping.is_set():
                break
            if stored.is_enabled:
                wait_s = min(wait_s, self._advance(stored))
        return wait_s

    def _advance(self, stored: StoredSchedule) -> float:
        """Runs one schedule. Returns in how many seconds to look at it again."""
        now = self._loop.clock.now()
        decided = decide(stored.model, stored.progress, now, stored.anchor, is_busy=self._is_busy(stored))
        if decided != stored.progress:
            if not self._schedules.note_decision(stored, decided):
                return 0.0
            failpoint("schedule.decided")
        for due in decided.due:
            if not self._submit(replace(stored, progress=decided), due):
                return RETRY_S
        if decided.waiting:
            return RETRY_S
        coming = stored.next_run(now)
        return max(0.0, (coming - self._loop.clock.now()).total_seconds()) if coming else LONGEST_WAIT_S

    def _is_busy(self, stored: StoredSchedule) -> bool:
        """Whether an earlier job of a schedule hasn't ended."""
        if stored.model.drumbeat.overlap == "allow":
            return False
        return any(job in self._loop.jobs for job in self._schedules.jobs_of(stored.name))

    def _submit(self, stored: StoredSchedule, due: datetime) -> bool:
        """Submits the job of a time, and records it. Returns False where it is tried again."""
        note = f"submitted by schedule {stored.name}, due {format_due(due)}"
        request = job_request(stored.request, stored.name, due, stored.key(run_word(due)), note)
        try:
            job = self._schedules.submit(stored, request).job.name
            problem = ""
        except UnavailableUserError as error:
            why = f"stopped: {error.what}"
            self._schedules.update(stored, lambda current: _stopped(current, why))
            log.warning("schedule %s stops: %s", stored.name, error.what)
            return True
        except (UnusableComputeError, UnreachableError, StorageError) as error:
            problem = f"the job of {format_due(due)} waits: {error.what}"
            if problem != stored.problem:
                self._schedules.update(stored, lambda current: replace(current, problem=problem))
            return False
        except DrumbeatError as error:
            job, problem = "", f"the job of {format_due(due)} was refused: {error.what}"
            log.warning("schedule %s: %s", stored.name, problem)
        failpoint("schedule.submitted")
        self._schedules.update(stored, lambda current: _noted(current, due, job, problem))
        failpoint("schedule.noted")
        return True


def _noted(stored: StoredSchedule, due: datetime, job: str, problem: str) -> StoredSchedule:
    """Returns a schedule after the submission for a time, or its refusal."""
    progress: Progress = stored.progress
    left = replace(progress, due=tuple(one for one in progress.due if one != due))
    if not job:
        return replace(stored, progress=left, problem=problem)
    return replace(stored, progress=left, last_run=due, last_job=job, problem="")


def _stopped(stored: StoredSchedule, problem: str) -> StoredSchedule:
    document = {**stored.document, "is_enabled": False}
    progress = replace(stored.progress, due=(), waiting=())
    return replace(stored, document=document, is_enabled=False, progress=progress, problem=problem)
