"""Routes of jobs: submit, plan, list, show, cancel, archive."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import Depends, Query, Request, Response

from drumbeat.jobfile.reading.writer import dumps_document
from drumbeat.model.api.checkpoints import CheckpointView, ContinuedView, SnapshotView
from drumbeat.model.api.jobs import EventView, JobPage, JobView, JobWithEvents, PreviewView
from drumbeat.model.api.outlooks import OutlookView, StartView
from drumbeat.model.api.page import DefinitionView
from drumbeat.model.api.requests import JobBatch, JobChange, JobRequest
from drumbeat.model.states import State
from drumbeat.server.context import ContextOf, ControlOf, PrincipalOf, current, while_connected
from drumbeat.server.control import Control
from drumbeat.server.database import SqlStore
from drumbeat.server.database.records import Record
from drumbeat.server.jobs.earlier_requests import CONTINUED
from drumbeat.server.jobs.job_filter import JobFilter, RequestedJobs
from drumbeat.server.jobs.job_views import event_lines, job_view, job_with_events, listed_job
from drumbeat.server.loop.bus import job_topic
from drumbeat.server.routing import new_router

router = new_router("/api/v1", tags=["jobs"])

Discard = Annotated[bool, Query(description="Cancel also while results are being stored; the rest of them is lost.")]
TEXT = (
    "Only jobs with this text in their name, display name, experiment, compute or tags; in any case of letters. "
    "`tag:x` and `tag:x=y` ask for a tag."
)
SCANNED = 100
"""Number of jobs that are read at once in a search for a text."""


@router.post("/jobs", status_code=201, responses={200: {"model": JobView, "description": "The key was used before."}})
def submit(body: JobRequest, control: ControlOf, principal: PrincipalOf, response: Response) -> JobView:
    """Submits a job. It is durable when the response arrives."""
    record, is_new = control.jobs.submit(body, by=principal)
    response.status_code = 201 if is_new else 200
    return job_view(record)


@router.post("/job-batches", status_code=201)
def submit_all(body: JobBatch, control: ControlOf, principal: PrincipalOf) -> list[JobView]:
    """Submits jobs together: all of them, or none. They are durable when the response arrives, which has their order.

    A job whose key was used before is the job of that time.
    """
    return [job_view(record) for record, _ in control.jobs.submit_all(body.jobs, by=principal)]


@router.post("/plan")
async def plan(body: JobRequest, control: ControlOf, principal: PrincipalOf, request: Request) -> PreviewView:
    """Returns what would run, without effects. Ends when the client disconnects."""
    return await while_connected(request, lambda go_on: control.jobs.preview(body, principal, go_on))


def _chosen_jobs(control: ControlOf, requested: RequestedJobs) -> JobFilter:
    """Returns the filter of a request with the names that jobs use for its experiment."""
    names = [name for one in requested.experiments for name in control.experiments.names_in_jobs(one)]
    return replace(requested, experiments=tuple(names))


ChosenJobs = Annotated[JobFilter, Depends(_chosen_jobs)]


@router.get("/jobs")
def list_jobs(
    *,
    control: ControlOf,
    chosen: ChosenJobs,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    after: Annotated[str | None, Query(description="`after` of the page before.")] = None,
    text: Annotated[str, Query(max_length=200, description=TEXT)] = "",
) -> JobPage:
    """Lists a page of jobs, newest first. Of a job with more than 256 nodes it has none; ask for the job itself."""
    chosen = replace(chosen, limit=limit, after=after, text=text)
    records = _with_text(control.store, chosen) if text else control.store.jobs(chosen)
    metrics = control.metrics.highlights([record.job.name for record in records])
    views = [listed_job(record, metrics=metrics.get(record.job.name)) for record in records]
    return JobPage(tuple(views), records[-1].job.name if len(records) == limit else None)


@router.get("/job-counts")
def count_jobs(*, control: ControlOf, chosen: ChosenJobs) -> dict[State, int]:
    """Counts the jobs in each state; states without jobs are left out."""
    return control.store.count_jobs(chosen)


def _with_text(store: SqlStore, chosen: JobFilter) -> list[Record]:
    """Returns the page of the jobs that have the filter's text."""
    matching: list[Record] = []
    after = chosen.after
    while len(matching) < chosen.limit:
        page = store.jobs(replace(chosen, limit=SCANNED, after=after))
        matching += [record for record in page if chosen.has_text(record)]
        if len(page) < SCANNED:
            break
        after = page[-1].job.name
    return matching[: chosen.limit]


@router.get("/jobs/{name}")
def show(name: str, context: ContextOf) -> JobWithEvents:
    """Returns one job and its events."""
    control = context.control
    record = current(control, name)
    metrics = control.metrics.highlights([name]).get(name)
    shown = job_with_events(record, control.store.events(name), context.storage_notice(record.job), metrics)
    earlier = control.jobs.earlier
    begins = record.job.plan.resumption
    return replace(
        shown,
        origin=earlier.origin(name),
        successors=earlier.successors(record),
        continues=ContinuedView(begins.job, begins.step) if begins else None,
        continued_by=earlier.successors(record, CONTINUED),
    )


@router.patch("/jobs/{name}")
def change(name: str, body: JobChange, control: ControlOf, principal: PrincipalOf) -> JobView:
    """Changes display name, description and tags of a job, which are those of its MLflow run, too. Idempotent.

    With `seen`, it is refused where another user has changed the same meanwhile: `fields` has both texts of each.
    """
    record = control.job_labels.change(name, body, principal)
    return job_view(record, metrics=control.metrics.highlights([name]).get(name))


@router.get("/jobs/{name}/story")
def story(name: str, control: ControlOf) -> list[EventView]:
    """Returns the events of a job, oldest first."""
    return event_lines(control.store.events(name))


@router.get("/jobs/{name}/checkpoint")
def show_checkpoint(name: str, control: ControlOf) -> CheckpointView:
    """Returns the last checkpoint of a job, from which another one can continue, or why none can."""
    return control.jobs.resumptions.view(name)


@router.get("/jobs/{name}/snapshots")
def list_snapshots(name: str, control: ControlOf) -> list[SnapshotView]:
    """Returns the code that a job may run when it is run again: its own, and that of its experiment's other jobs.

    Each by the last job that ran it, the newest first, at most 50.
    """
    return control.jobs.earlier.snapshots(name)


@router.get("/jobs/{name}/outlook")
def show_outlook(name: str, control: ControlOf) -> OutlookView:
    """Returns when a queued job may start and who holds the slots of its compute, or when a running one ends."""
    return control.outlooks.of(name)


@router.get("/starts")
def list_starts(control: ControlOf) -> list[StartView]:
    """Returns when each queued job may start, by compute and in the order of the queue; at most 1,000."""
    return control.outlooks.starts()


@router.get("/jobs/{name}/definition")
def show_definition(name: str, control: ControlOf) -> DefinitionView:
    """Returns the job file as it was submitted, and its plan."""
    record = current(control, name)
    return DefinitionView(dict(record.spec), dumps_document(record.spec), record.job.plan)


@router.post("/jobs/{name}/cancel")
def cancel(name: str, control: ControlOf, principal: PrincipalOf, discard: Discard = False) -> JobView:
    """Asks a job to stop. Idempotent."""
    return job_view(control.jobs.cancel(name, principal.title, discard=discard))


@router.post("/jobs/{name}/archive")
def archive(name: str, control: ControlOf) -> JobView:
    """Hides a job from lists."""
    return _archived(control, name, is_archived=True)


@router.post("/jobs/{name}/restore")
def restore(name: str, control: ControlOf) -> JobView:
    """Shows a job in lists again."""
    return _archived(control, name, is_archived=False)


def _archived(control: Control, name: str, *, is_archived: bool) -> JobView:
    control.store.archive(name, is_archived=is_archived)
    control.bus.publish(job_topic(name))
    return job_view(control.store.load(name))
