"""A schedule's file: its trigger, and the job that it submits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import BeforeValidator, Field

from drumbeat.jobfile.reading.error_messages import shown
from drumbeat.jobfile.reading.field_types import AsText, Text, complaint, filled, pattern
from drumbeat.jobfile.reading.loader import DocumentKind, load_model, model_from
from drumbeat.jobfile.reading.model import AnyCase, Model
from drumbeat.jobfile.schedules.triggers import TriggerValue

REFERENCE = "azureml:"
ScheduleName = Annotated[
    str, pattern(r"[A-Za-z0-9][A-Za-z0-9_-]{0,199}", "letters, digits, `-` and `_`, at most 200, no `-` or `_` first")
]


def _job(value: object) -> object:
    """A path, a reference, a mapping, or a job made in Python."""
    if hasattr(value, "to_job"):
        return cast("Any", value).to_job()
    if isinstance(value, str):
        return filled(value)
    if isinstance(value, Model | Mapping):
        return cast("object", value)
    fix = "Give the path of a job file, `azureml:NAME` of an earlier job, or the job itself."
    raise complaint(f"expected a job, got {shown(value)}", fix)


class ScheduleSettings(Model):
    """What drumbeat adds: what happens to times at which the job can't be submitted."""

    missed: Annotated[Literal["skip", "last", "all"], AnyCase()] = Field(
        default="last",
        description="What becomes of times that passed while no server ran: none of them is made up for, the last one, "
        "or all, at most the last 1000.",
    )
    overlap: Annotated[Literal["skip", "queue", "allow"], AnyCase()] = Field(
        default="allow",
        description="What becomes of a time at which an earlier job of the schedule hasn't ended: it is passed over, "
        "waits for that job's end, or its job is submitted beside it.",
    )


class JobSchedule(Model):
    """A job that is submitted again and again."""

    noun: ClassVar[str] = "the schedule"
    ignored: ClassVar[frozenset[str]] = frozenset({"$schema"})
    read_only: ClassVar[frozenset[str]] = frozenset({"id", "creation_context", "provisioning_state"})

    name: ScheduleName = Field(description="Name of the schedule. Its jobs are named after it and their time.")
    display_name: Text | None = Field(default=None, max_length=255, description="Name in lists and on pages.")
    description: Text | None = Field(default=None, description="Description of its purpose.")
    tags: dict[str, AsText] = Field(default_factory=dict, description="Free-form labels of the schedule.")
    properties: dict[str, AsText] = Field(default_factory=dict, description="Labels that drumbeat keeps.")
    trigger: TriggerValue = Field(description="When the job is submitted.")
    create_job: Annotated[Any, BeforeValidator(_job)] = Field(
        description="The job: the path of its file; `azureml:NAME`, an earlier job; the job itself; or a mapping whose "
        "`job` is one of the first two, with keys that replace those of that job, such as `inputs` and `settings`."
    )
    is_enabled: bool = Field(default=True, description="Whether it submits its job.")
    drumbeat: ScheduleSettings = Field(default_factory=ScheduleSettings, description="What drumbeat adds.")


SCHEDULE = DocumentKind("a schedule", lambda _document, _places: JobSchedule, "`name:`, `trigger:` and `create_job:`")


def load_schedule(path: str | Path, overrides: Sequence[str] = ()) -> JobSchedule:
    """Reads the schedule in a file. Raises SpecError."""
    return cast("JobSchedule", load_model(path, SCHEDULE, overrides))


def schedule_from(document: Mapping[str, Any], source: str = "schedule", overrides: Sequence[str] = ()) -> JobSchedule:
    """Checks a schedule given as a mapping. Raises SpecError."""
    return cast("JobSchedule", model_from(document, SCHEDULE, source, overrides=overrides))


def with_updates(document: Mapping[str, Any], updates: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a job's document with the keys of a schedule's `create_job` in place of its own; tables are merged."""
    merged = dict(document)
    for key, value in updates.items():
        before = merged.get(key)
        if isinstance(value, Mapping) and isinstance(before, Mapping) and key != "type":
            merged[key] = with_updates(cast("Mapping[str, Any]", before), cast("Mapping[str, Any]", value))
        elif value is not None:
            merged[key] = value
    return merged


def job_reference(create_job: object) -> str:
    """Returns the earlier job that `create_job` names as `azureml:NAME`, also as its `job`; "" = it names none."""
    given = cast("Mapping[str, object]", create_job).get("job") if isinstance(create_job, Mapping) else create_job
    if not isinstance(given, str) or not given.startswith(REFERENCE):
        return ""
    return given.removeprefix(REFERENCE).rstrip("/").rpartition("/")[2]
