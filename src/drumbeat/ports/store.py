"""Jobs and all that must be durable with them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from drumbeat.core.life.events import AgentSaid, CancelRequested, CheckpointSaved, Effect, StoryEntry, ValueLogged
from drumbeat.core.life.job import Job
from drumbeat.core.life.output_publication import outputs_left
from drumbeat.core.resource_needs import Slot
from drumbeat.ports.catalog import Use
from drumbeat.protocol.api.requests import JobRequest
from drumbeat.protocol.states import State


@dataclass(frozen=True)
class Record:
    """A job as stored. version: grows by one with each write. spec: what the person wrote, as the client sent it.

    lease: token of the server that holds the job.
    """

    job: Job
    version: int
    spec: dict[str, object] = field(default_factory=dict[str, object])
    archived: bool = False
    lease: int = 0


@dataclass(frozen=True)
class Submission:
    """A new job, and the key that makes submitting it twice the same as once. uses: the assets that it names."""

    key: str
    job: Job
    spec: dict[str, object]
    story: tuple[StoryEntry, ...] = ()
    uses: tuple[Use, ...] = ()
    request: JobRequest | None = None
    """Of a parent: what its children are submitted from."""
    booked_in_all: int | None = None
    """What `SqlStore.booked` said of `ALL_COMPUTES` before quotas let the job wait; None = no quota limits that."""


@dataclass(frozen=True)
class Change:
    """One job's new value with all that belongs to it; written whole or not at all.

    version: the job's version that the change was made from. effects: appended to the outbox under the keys
    (job, attempt, n), n counted on from what the job has. done: outbox rows that are finished. reserve: slots taken
    by (job, attempt). release: attempts whose slots are given back. booked: what `SqlStore.booked` said before the
    slots were chosen; if anybody has booked in between, nothing is written. booked_in_all: the same of all computes
    and the quotas (`ALL_COMPUTES`). at: when the slots are taken.
    """

    job: Job
    version: int
    story: tuple[StoryEntry, ...] = ()
    effects: tuple[Effect, ...] = ()
    done: tuple[int, ...] = ()
    reserve: tuple[Slot, ...] = ()
    release: tuple[int, ...] = ()
    booked: int | None = None
    booked_in_all: int | None = None
    at: datetime | None = None


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


Message = AgentSaid | CancelRequested | ValueLogged | CheckpointSaved
"""What can come to a server that doesn't hold the job."""


def is_for(message: Message, job: Job) -> bool:
    """Whether the job can still make anything of it. One that has ended gives up outputs that are on their way."""
    if not job.state.is_terminal:
        return True
    return isinstance(message, CancelRequested) and message.discard and bool(outputs_left(job))


@dataclass(frozen=True)
class Letter:
    """A message about a job that came to a server which doesn't hold it: kept until the one that does has heard it."""

    id: int
    job: str
    message: Message


@dataclass(frozen=True)
class Head:
    """As much of an unfinished job as tells whether anything about it has changed, and whose it is."""

    name: str
    version: int
    lease: int
    state: State


@dataclass(frozen=True)
class Removal:
    """A deleted job whose files may still be there. note: as it was given to `SqlStore.delete_job`."""

    version: int
    """The last version of the job, which tells it from others of its name."""
    note: str


@dataclass(frozen=True)
class JobFilter:
    """Which jobs to list, newest first. Every condition that is set must hold."""

    states: tuple[State, ...] = ()
    """Jobs in any of these states; empty = in every state."""
    experiments: tuple[str, ...] = ()
    """Jobs that name any of these experiments; empty = of every experiment."""
    is_archived: bool | None = False
    """None = archived or not."""
    limit: int = 100
    after: str | None = None
    """Name of the last job of the page before."""
    parent: str | None = None
    """Jobs of this sweep or pipeline; "" = jobs that have no parent, None = both."""
    person: str | None = None
    """Jobs of this person; None = of anyone."""
    text: str = ""
    """Jobs whose record may have this text, in any case of letters: a store leaves out jobs only where it has not."""


@dataclass(frozen=True)
class History:
    """A job's story without the sentences, oldest line first."""

    job: str
    experiment: str
    person: str
    story: tuple[StoryEntry, ...]


@dataclass(frozen=True)
class ExperimentUse:
    """How jobs use the name of an experiment."""

    name: str
    jobs: int
    first_at: datetime
    """When the first of them was submitted."""
    latest_at: datetime
