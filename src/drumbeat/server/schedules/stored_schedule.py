"""A schedule as the database has it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from drumbeat.core.schedules.decision import Progress
from drumbeat.core.schedules.due_times import next_time
from drumbeat.jobfile.schedules.schedule import JobSchedule, schedule_from
from drumbeat.model import wire
from drumbeat.model.api.requests import JobRequest
from drumbeat.server.resources.records import Resource, Use

KIND = "schedule"
"""Of its resource, and of the use of a schedule by its jobs."""


@dataclass(frozen=True)
class StoredSchedule:
    """A schedule, its job, and how far it is."""

    document: dict[str, Any]
    """The schedule as its file has it."""
    request: JobRequest
    """Its job."""
    job_type: str
    user: str
    """Whose it is."""
    is_home_user: bool
    """Whether that user had no token of their own, but the one of the server's home."""
    id: str
    """Identifies it among those that had its name before, so that no job of theirs counts as one of it."""
    created_at: datetime
    anchor: datetime
    """The start of its trigger where that names none."""
    is_enabled: bool
    progress: Progress
    last_run: datetime | None = None
    last_job: str = ""
    problem: str = field(default="")
    """Why the last job wasn't submitted, or why it was stopped; "" = neither."""

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.document["name"])

    @cached_property
    def model(self) -> JobSchedule:
        """The checked file."""
        return schedule_from(self.document)

    def key(self, run: str) -> str:
        """Returns the key of the submission for a run: a time, or a request to trigger it."""
        return f"{KIND}/{self.name}/{self.id}/{run}"

    def use(self) -> Use:
        """Returns what is recorded of its jobs."""
        return Use(KIND, self.name, "", "schedule")

    def next_run(self, now: datetime) -> datetime | None:
        """Returns its next time; None = it is disabled, or its times are over."""
        if not self.is_enabled:
            return None
        return next_time(self.model.trigger, max(now, self.progress.handled_until), self.anchor)

    def to_resource(self) -> Resource:
        """Returns the row."""
        return Resource(KIND, self.name, document=wire.to_wire(self), created_at=self.created_at)


def stored_schedule(resource: Resource) -> StoredSchedule:
    """Returns the schedule in a row."""
    return wire.from_wire(StoredSchedule, resource.document)


def run_word(due: datetime) -> str:
    """Returns what a time is called in the key of its submission."""
    return due.astimezone(UTC).isoformat()
