"""Schedules as scripts make them, and as the server answers them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, cast

from drumbeat.jobfile.reading.writer import to_dict
from drumbeat.jobfile.schedules import schedule as schedule_models
from drumbeat.jobfile.schedules.schedule import job_reference
from drumbeat.jobfile.schedules.triggers import CronTrigger, RecurrenceTrigger
from drumbeat.ml.objects.jobs import job_from_document
from drumbeat.ml.objects.plain import Attributes, SystemData
from drumbeat.model.api.schedules import ScheduleView

_WRITTEN = ("name", "display_name", "description", "tags", "properties", "trigger")


class ScheduleState(StrEnum):
    """Whether a schedule submits its job."""

    ENABLED = "Enabled"
    DISABLED = "Disabled"


class ScheduleTriggerResult(Attributes):
    """The job that triggering a schedule submitted: `job_name`, `schedule_action_type`."""


class Schedule:
    """A schedule; its attributes can be changed, and are sent by `begin_create_or_update`."""

    def __init__(
        self,
        *,
        name: str,
        trigger: CronTrigger | RecurrenceTrigger | None,
        display_name: str | None = None,
        description: str | None = None,
        tags: dict[str, str] | None = None,
        properties: dict[str, str] | None = None,
        **keys: Any,
    ) -> None:
        self.name, self.trigger, self.display_name, self.description = name, trigger, display_name, description
        self.tags, self.properties = dict(tags or {}), dict(properties or {})
        self.is_enabled: bool | None = keys.get("is_enabled")
        """None: a new one is enabled, and one that exists stays as it is."""
        self.drumbeat: Any = keys.get("drumbeat")
        """`missed` and `overlap`; None = their defaults."""
        self.id: str | None = None
        self.creation_context: SystemData | None = None
        self.provisioning_state: str | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={self.name!r}, is_enabled={self.is_enabled!r})"


class JobSchedule(Schedule):
    """A schedule of a job."""

    type = "job"

    def __init__(self, *, create_job: Any, **keys: Any) -> None:
        """create_job: a job that a script made or loaded, or the name of an earlier job."""
        super().__init__(**keys)
        self.create_job = create_job
        self.kept_job: Any = None
        """`create_job` as the server has it; while a script leaves it, the server keeps its job."""
        self.written_job: Any = None
        """How the schedule's file calls that job."""

    def to_model(self) -> schedule_models.JobSchedule:
        """Returns the checked schedule. Raises SpecError."""
        keys = {key: getattr(self, key) for key in _WRITTEN}
        job = self.create_job
        if isinstance(job, str) and not job_reference(job):
            job = f"{schedule_models.REFERENCE}{job}"
        keys |= {"create_job": job, "drumbeat": self.drumbeat, "is_enabled": self.is_enabled}
        return schedule_models.JobSchedule.made({key: value for key, value in keys.items() if value not in (None, {})})

    @property
    def has_own_job(self) -> bool:
        """Whether the server has its job already, unchanged."""
        return self.kept_job is not None and _as_document(self.create_job) == self.kept_job


def schedule_from_view(view: ScheduleView) -> JobSchedule:
    """Returns a schedule of the server."""
    model = schedule_models.schedule_from(view.document)
    keys = {key: getattr(model, key) for key in (*_WRITTEN, "drumbeat") if key in model.model_fields_set}
    made = JobSchedule(**keys, create_job=job_from_document(view.job), is_enabled=view.is_enabled)
    made.kept_job, made.written_job = _as_document(made.create_job), view.document["create_job"]
    made.id, made.provisioning_state = f"azureml:{view.name}", "Succeeded"
    made.creation_context = SystemData(created_at=view.created_at, created_by=view.user)
    return made


def _as_document(job: Any) -> Any:
    if hasattr(job, "to_job"):
        return to_dict(job.to_job())
    return dict(cast("Mapping[str, Any]", job)) if isinstance(job, Mapping) else job
