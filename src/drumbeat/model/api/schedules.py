"""Schedules as the API shows and takes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar

from drumbeat.model.api.constraints import NO_OTHER_KEYS, limited
from drumbeat.model.api.requests import JobRequest


@dataclass(frozen=True)
class ScheduleView:
    """A schedule, and how far it is."""

    name: str
    user: str
    """Whose it is: the user who created it, and whose its jobs are."""
    created_at: datetime
    is_enabled: bool
    trigger: dict[str, Any]
    """As in its file."""
    title: str
    """The trigger in words, such as `cron 30 3 * * *, Europe/Berlin`."""
    missed: str
    """What becomes of times at which no server ran: `skip`, `last` or `all`."""
    overlap: str
    """What becomes of times at which an earlier job hasn't ended: `skip`, `queue` or `allow`."""
    job_type: str
    """`command`, `sweep` or `pipeline`."""
    next_run: datetime | None = None
    """None = there is none: it is disabled, or its end is over."""
    last_run: datetime | None = None
    """The time of the last job that was submitted; None = there was none yet."""
    last_job: str = ""
    waiting: int = 0
    """The number of times that wait for the end of the job before them."""
    problem: str = ""
    """Why the last times have no job, or why it was stopped; "" = they have one."""
    display_name: str = ""
    description: str = ""
    tags: dict[str, str] = field(default_factory=dict[str, str])
    jobs: tuple[str, ...] = ()
    """Its jobs, newest first; in a list none."""
    document: dict[str, Any] = field(default_factory=dict[str, Any])
    """The schedule as its file has it; in a list it is empty."""
    job: dict[str, Any] = field(default_factory=dict[str, Any])
    """The job that is submitted; in a list it is empty."""


@dataclass(frozen=True)
class NewSchedule:
    """A schedule to create, or to put in the place of the one of its name."""

    __pydantic_config__: ClassVar[dict[str, Any]] = NO_OTHER_KEYS

    document: dict[str, Any] = field(metadata=limited("The schedule, in the form of its file."))
    request: JobRequest | None = field(
        default=None,
        metadata=limited(
            "Its job. None: `create_job` names an earlier job, or is the one that the schedule has already."
        ),
    )
    source: str = field(default="schedule", metadata=limited("Its file, for messages.", max_length=5000))
    is_new: bool = field(default=False, metadata=limited("Whether one that exists already is refused."))


@dataclass(frozen=True)
class TriggerRequest:
    """A run of a schedule beside its times."""

    __pydantic_config__: ClassVar[dict[str, Any]] = NO_OTHER_KEYS

    key: str = field(default="", metadata=limited("Two requests with the same key submit one job.", max_length=100))
