"""The deadlines of jobs on the monotonic clock, since the wall clock may jump."""

from __future__ import annotations

from datetime import datetime, timedelta

from drumbeat.core.lifecycle.events import Event, JudgeDue, RetryDue, TimeUp
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.lifecycle.state_machine import JUDGE_AFTER
from drumbeat.model.states import State


class DeadlineTimes:
    """When the deadlines of each job pass: counted since the job was given them, or since this server began."""

    def __init__(self) -> None:
        self._due_at: dict[str, dict[datetime, float]] = {}

    def due(self, job: Job, now: datetime, at: float) -> Event | None:
        """Returns what the job's time has come for. now, at: one moment on both clocks."""
        if job.deadline and at >= self._on_monotonic(job.name, job.deadline, now, at):
            return TimeUp()
        if job.judge_at and at >= self._on_monotonic(job.name, job.judge_at, now, at, JUDGE_AFTER):
            return JudgeDue()
        if job.retry_at:
            most = timedelta(seconds=job.policy.max_retry_delay_s)
            if at >= self._on_monotonic(job.name, job.retry_at, now, at, most):
                return RetryDue()
        return None

    def note(self, job: Job, now: datetime, at: float) -> None:
        """Begins to count the deadlines that a job was given just now."""
        if has_deadlines(job):
            for deadline in filter(None, (job.deadline, job.judge_at, job.retry_at)):
                self._on_monotonic(job.name, deadline, now, at)

    def forget(self, name: str) -> None:
        """Drops those of a job that has ended."""
        self._due_at.pop(name, None)

    def _on_monotonic(
        self, name: str, deadline: datetime, now: datetime, at: float, most: timedelta = timedelta.max
    ) -> float:
        """When that is, at most so long from now; what was said first counts."""
        left = min(deadline - now, most).total_seconds()
        return self._due_at.setdefault(name, {}).setdefault(deadline, at + left)


def has_deadlines(job: Job) -> bool:
    """Whether the job may have to do something because of the time."""
    if job.state in (State.QUEUED, State.PROVISIONING, State.STAGING):  # Its time limit counts between attempts, too.
        return job.retry_at is not None or job.deadline is not None
    return job.state is State.RUNNING
