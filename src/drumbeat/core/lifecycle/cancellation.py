"""Decides which requests to cancel a job are refused or repeat an earlier one, before the event is delivered."""

from __future__ import annotations

from drumbeat.core.lifecycle.events import CancelRequested
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.lifecycle.output_publication import outputs_left
from drumbeat.model.errors import ConflictError
from drumbeat.model.states import Reason, State


def is_repeated(job: Job, event: CancelRequested) -> bool:
    """Whether the job was canceled by an earlier request, so that this one changes nothing."""
    if job.state is State.FINALIZING:
        return not event.discard and job.verdict is not None and job.verdict.reason is Reason.CANCEL_REQUESTED
    return job.state is State.CANCELED and not outputs_left(job)


def refusal(job: Job, event: CancelRequested) -> ConflictError | None:
    """Gives the error that answers the request, None where the job can still be canceled."""
    if is_repeated(job, event):
        return None
    if job.state is State.FINALIZING and not event.discard:
        progress = "; ".join(status.detail for status in job.nodes if status and status.detail)
        what = f"job {job.name} is done and keeps its results" + (f": {progress}" if progress else "")
        fix = f"It ends by itself when they are kept. To give up the others: drumbeat cancel {job.name} --discard"
        return ConflictError(what, fix=fix)
    if left := outputs_left(job):
        names = ", ".join(output.name for output in left)
        what = f"job {job.name} has ended, and its outputs are still being put in their places: {names}"
        fix = f"To give them up: drumbeat cancel {job.name} --discard"
        return None if event.discard else ConflictError(what, fix=fix)
    return ConflictError(f"job {job.name} has ended already: {job.state}") if job.state.is_terminal else None
