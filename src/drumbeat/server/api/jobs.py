"""Jobs: submit, plan, list, look, cancel, hide."""

from __future__ import annotations

from secrets import token_hex
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from drumbeat.control.jobs.request import Request
from drumbeat.ports import JobFilter
from drumbeat.protocol.states import State
from drumbeat.server.api.environments import TextsBody
from drumbeat.server.api.log_reader import LogReader
from drumbeat.server.api.showing import job_view, job_with_story, story_views
from drumbeat.server.api.views import JobPage, JobView, JobWithStory, LogPage, PreviewView, StoryView
from drumbeat.server.room import ControlOf, RoomOf, current

router = APIRouter(prefix="/api/v1", tags=["jobs"])

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
PLACE = r"^(file:///[^\x00]*|snapshot:[0-9a-f]{64}|azureml://datastores/[^/\x00]+/paths/[^\x00]*)$"
Place = Annotated[str, Field(pattern=PLACE, max_length=5000)]
Note = Annotated[str, Field(min_length=1, max_length=1000)]
Discard = Annotated[bool, Query(description="Also while it keeps its results; what isn't kept yet is lost.")]
HIDDEN: dict[str, bool | None] = {"false": False, "true": True, "all": None}


class JobRequest(BaseModel):
    """A job to submit or to plan."""

    model_config = ConfigDict(extra="forbid")

    document: dict[str, Any] = Field(description="The job, in the dialect of the job file.")
    key: str = Field("", max_length=200, description="Sending it twice with one key is the same as once.")
    source: str = Field("job", max_length=5000, description="Where it was written, for messages.")
    experiment: str = Field("default", max_length=255, description="Used where the document names none.")
    code: Digest | None = Field(None, description="SHA-256 of the snapshot with the code.")
    inputs: dict[str, Place] = Field({}, description="Of each input with a local path: where it is now.")
    environment: TextsBody = Field(TextsBody(), description="The files that the environment names.")
    notes: list[Note] = Field([], max_length=200, description="What only the client sees: told with the plan's own.")

    def request(self) -> Request:
        """The same, as the control room takes it."""
        return Request(
            document=self.document,
            key=self.key or token_hex(16),
            source=self.source,
            experiment=self.experiment,
            code=self.code,
            inputs=dict(self.inputs),
            environment=self.environment.texts(),
            notes=tuple(self.notes),
        )


@router.post("/jobs", status_code=201, responses={200: {"model": JobView, "description": "This key came before."}})
def submit(body: JobRequest, control: ControlOf, response: Response) -> JobView:
    """Takes the job in; once this has answered, it is durable."""
    record, is_new = control.jobs.submit(body.request())
    response.status_code = 201 if is_new else 200
    return job_view(record)


@router.post("/plan")
def plan(body: JobRequest, control: ControlOf) -> PreviewView:
    """What would run; starts nothing and writes nothing."""
    return PreviewView.model_validate(control.jobs.preview(body.request()))


@router.get("/jobs")
def list_jobs(
    *,
    control: ControlOf,
    state: Annotated[list[State], Query(description="Any of these; every state when absent.")] = [],  # noqa: B006 - FastAPI copies it
    experiment: str | None = None,
    archived: Literal["false", "true", "all"] = "false",
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    after: Annotated[str | None, Query(description="`after` of the page before.")] = None,
) -> JobPage:
    """A page of jobs, newest first."""
    found = control.store.jobs(JobFilter(tuple(state), experiment, HIDDEN[archived], limit, after))
    return JobPage(jobs=[job_view(one) for one in found], after=found[-1].job.name if len(found) == limit else None)


@router.get("/jobs/{name}")
def show(name: str, room: RoomOf) -> JobWithStory:
    """One job and its story."""
    control = room.control
    record = current(control, name)
    return job_with_story(record, control.store.story(name), room.notices.of(record.job))


@router.get("/jobs/{name}/story")
def story(name: str, control: ControlOf) -> list[StoryView]:
    """Everything that happened to a job, oldest first."""
    return story_views(control.store.story(name))


@router.post("/jobs/{name}/cancel")
def cancel(name: str, control: ControlOf, discard: Discard = False) -> JobView:
    """Asks a job to stop; twice is the same as once."""
    return job_view(control.jobs.cancel(name, by="a person", discard=discard))


@router.post("/jobs/{name}/archive")
def archive(name: str, control: ControlOf) -> JobView:
    """Hides a job from lists."""
    control.store.archive(name, is_archived=True)
    return job_view(control.store.load(name))


@router.post("/jobs/{name}/restore")
def restore(name: str, control: ControlOf) -> JobView:
    """Shows a job in lists again."""
    control.store.archive(name, is_archived=False)
    return job_view(control.store.load(name))


@router.get("/jobs/{name}/logs")
def logs(
    name: str,
    control: ControlOf,
    after: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=4 << 20, description="Bytes, about.")] = 1 << 20,
) -> LogPage:
    """Pieces of all ranks' logs in the order of their arrival, for readers that don't follow."""
    control.store.load(name)
    reader = LogReader(control.artifacts, name, after)
    end = control.artifacts.log_end(name)
    return LogPage(pieces=reader.read(limit), after=reader.position, end=end)
