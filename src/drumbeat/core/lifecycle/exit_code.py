"""The exit code of a job, for shells."""

from __future__ import annotations

from drumbeat.core.lifecycle.job import Job
from drumbeat.model.states import State


def exit_code(job: Job) -> int | None:
    """0 completed, 130 canceled, 124 timed out, else the exit code of the rank that was the cause; None = not ended."""
    if not job.state.is_terminal:
        return None
    if job.state is State.COMPLETED:
        return 0
    return (job.verdict.code if job.verdict else None) or 1
