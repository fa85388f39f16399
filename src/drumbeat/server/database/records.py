"""Jobs and all that must be durable with them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from drumbeat.core.lifecycle.events import Effect, JobEvent
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.scheduling.resource_needs import Slot
from drumbeat.core.use_times import TimeRow
from drumbeat.model.api.requests import JobRequest
from drumbeat.server.resources.records import Use


@dataclass(frozen=True)
class Record:
    """A job as stored. version: grows by one with each write. spec: what the user wrote, as the client sent it."""

    job: Job
    version: int
    spec: dict[str, object] = field(default_factory=dict[str, object])
    archived: bool = False
    is_apart: bool = field(default=False, compare=False)
    """Whether parts of it are in rows of their own (`server/jobs/part_tables.py`)."""


@dataclass(frozen=True)
class Submission:
    """A new job, and the key that makes submitting it twice the same as once. uses: the assets that it names."""

    key: str
    job: Job
    spec: dict[str, object]
    events: tuple[JobEvent, ...] = ()
    uses: tuple[Use, ...] = ()
    request: JobRequest | None = None
    """What its children or, by schedules, jobs like it are submitted from. Without a document: it is `spec`."""


@dataclass(frozen=True)
class TakenEffect:
    """An effect in the outbox, by its key."""

    job: str
    attempt: int
    n: int


@dataclass(frozen=True)
class Change:
    """One job's new value with all that belongs to it; written whole or not at all.

    version: the job's version that the change was made from. effects: appended to the outbox under the keys
    (job, attempt, n), n counted on from what the job has. done: outbox rows that are finished. reserve: slots taken
    by (job, attempt). release: attempts whose slots are given back. at: when the slots are taken.
    """

    job: Job
    version: int
    events: tuple[JobEvent, ...] = ()
    effects: tuple[Effect, ...] = ()
    done: tuple[int, ...] = ()
    reserve: tuple[Slot, ...] = ()
    release: tuple[int, ...] = ()
    at: datetime | None = None
    takes: TakenEffect | None = None
    """The `stop_gang` of the attempt whose nodes the job takes over: it is removed, and its slots are given back."""


@dataclass(frozen=True)
class PendingEffect:
    """A row of the outbox: run at least once, then `done`."""

    id: int
    job: str
    attempt: int
    n: int
    effect: Effect
    tries: int = 0


@dataclass(frozen=True)
class Reservation:
    """Slots of a compute that an attempt holds."""

    compute: str
    job: str
    attempt: int
    slot: Slot


@dataclass(frozen=True)
class Removal:
    """A deleted job whose files may still be there. note: as it was given to `SqlStore.delete_job`."""

    version: int
    """The last version of the job, which tells it from others of its name."""
    note: str


@dataclass(frozen=True)
class History:
    """A job's events without their messages, oldest first."""

    job: str
    experiment: str
    user: str
    events: tuple[JobEvent, ...]


@dataclass(frozen=True)
class BookedTimes:
    """The time of a job that has ended. busy: how busy its GPUs were, from 0 to 1; None = that wasn't measured."""

    job: str
    compute: str
    rows: tuple[TimeRow, ...]
    busy: float | None = None


@dataclass(frozen=True)
class BookedRow:
    """A row of the time of a job, under the name that it is summed by."""

    name: str
    compute: str
    row: TimeRow
    busy: float | None


@dataclass(frozen=True)
class ExperimentUse:
    """How jobs use the name of an experiment."""

    name: str
    jobs: int
    first_at: datetime
    """When the first of them was submitted."""
    latest_at: datetime
