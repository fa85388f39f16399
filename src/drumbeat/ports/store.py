"""Jobs and all that must be durable with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from drumbeat.core.life.events import AgentSaid, CancelRequested, CheckpointSaved, Effect, StoryEntry, ValueLogged
from drumbeat.core.life.job import Job
from drumbeat.core.life.output_publication import outputs_left
from drumbeat.core.resource_needs import Slot
from drumbeat.ports.catalog import Catalog, Use
from drumbeat.ports.leases import LiveServer, Ownership
from drumbeat.ports.people import People
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
    """What `Store.booked` said of `ALL_COMPUTES` before quotas let the job wait; None = no quota limits that."""


@dataclass(frozen=True)
class Change:
    """One job's new value with all that belongs to it; written whole or not at all.

    version: the job's version that the change was made from. effects: appended to the outbox under the keys
    (job, attempt, n), n counted on from what the job has. done: outbox rows that are finished. reserve: slots taken
    by (job, attempt). release: attempts whose slots are given back. booked: what `Store.booked` said before the slots
    were chosen; if anybody has booked in between, nothing is written. booked_in_all: the same of all
    computes and the quotas (`ALL_COMPUTES`). at: when the slots are taken.
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
    """A deleted job whose files may still be there. note: as it was given to `Store.delete_job`."""

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


class Store(Catalog, People, Protocol):
    """Jobs, stories, the outbox, the inbox, reservations, people, and the resources.

    What a call has returned from is durable.

    A server opens the store with `lease()`; every write to a job carries that token, and a write to a job that another
    live server holds raises StaleError and changes nothing. The wall clock decides nothing about leases.
    """

    def lease(self, ownership: Ownership, *, address: str = "") -> int:
        """Registers a server, and returns its token, which is larger than any before.

        address: where agents call the server.
        """
        ...

    def leave(self, token: int) -> None:
        """The server ends in good order: whoever claims next needn't wait for its silence. Twice is as once."""
        ...

    def live_servers(self) -> list[LiveServer]:
        """Those that have an address; the newest first."""
        ...

    def show_doors(self, token: int, doors: Mapping[str, tuple[str, ...]]) -> None:
        """From now on these are the doors of this server; nothing, if it has been replaced."""
        ...

    def beat(self, token: int) -> None:
        """The server of this token lives. Raises StaleError when it has been replaced."""
        ...

    def claim(self, token: int) -> list[str]:
        """Takes over what servers held that have left, or haven't beaten for a while by this process's monotonic clock,
        and gives the names of the jobs that are this server's since then. Raises StaleError as `beat` does.
        """
        ...

    def submit(self, token: int, submission: Submission) -> tuple[Record, bool]:
        """Writes a job, its story and its key in one transaction; (record, True).

        The same key again gives the record that there is, and False. Another key with the same job name raises
        ConflictError, and so do the name of a deleted job whose files are still being removed, and a booking since the
        submission's `booked_in_all`. A job that takes the name of a deleted one goes on with its versions, so that no
        server takes one for the other.
        """
        ...

    def submitted(self, key: str) -> Record | None:
        """The job that was submitted with this key; None = none was."""
        ...

    def request(self, name: str) -> JobRequest:
        """Returns the request of a parent job. Raises NotFoundError, also for a job that is no parent."""
        ...

    def commit(self, token: int, changes: Sequence[Change]) -> None:
        """Writes all of the changes in one transaction. Raises StaleError, and writes nothing, when any job's version
        has moved on or its lease is another's; NotFoundError when there is no such job; ConflictError when slots of
        the compute were booked after the change's `booked`.
        """
        ...

    def load(self, name: str) -> Record:
        """One job. Raises NotFoundError."""
        ...

    def unfinished(self) -> list[Record]:
        """Every job that isn't in a terminal state, oldest first."""
        ...

    def heads(self) -> list[Head]:
        """The same jobs, in the same order, in short."""
        ...

    def jobs(self, chosen: JobFilter) -> list[Record]:
        """A page of jobs, newest first. Raises NotFoundError when `after` names no job."""
        ...

    def count_jobs(self, chosen: JobFilter) -> dict[State, int]:
        """Returns how many jobs are in each state, of all that a filter chooses but for its text and its page."""
        ...

    def experiments(self) -> list[ExperimentUse]:
        """Returns the names of experiments that jobs have, archived jobs included, by name."""
        ...

    def story(self, name: str) -> list[StoryEntry]:
        """All lines of a job's story, oldest first. Raises NotFoundError."""
        ...

    def histories(self, names: Sequence[str] = (), since: datetime | None = None) -> list[History]:
        """Returns the stories of many jobs at once, the job that was submitted first comes first.

        names: of these jobs and their children; () = of all jobs. since: of unfinished jobs, and of those whose story
        has a line from that time on. A name that no job has gives nothing.
        """
        ...

    def outbox(self, token: int | None = None) -> list[PendingEffect]:
        """Every effect that isn't done, oldest first. token: only of jobs that this server holds."""
        ...

    def tried(self, effect: int) -> None:
        """Counts a try of an effect that failed."""
        ...

    def done(self, effect: int, *, release: tuple[str, int] | None = None, at: datetime | None = None) -> None:
        """An effect is finished, and with it (job, attempt) gives its slots back. Twice is the same as once.

        at: when; what the attempt has used is added to the past use of its person then.
        """
        ...

    def reservations(self, compute: str) -> list[Reservation]:
        """The slots that are held."""
        ...

    def booked(self, compute: str) -> int:
        """Grows whenever slots of the compute are taken or given back. Read before `reservations`, and given with a
        `Change`, it makes sure that two servers never give the same slots to two jobs.
        """
        ...

    def post(self, job: str, message: Message) -> None:
        """Keeps a message for the server that holds the job. For a job that can make nothing of it any more it is
        nothing; raises NotFoundError when there is no such job.
        """
        ...

    def inbox(self, token: int) -> list[Letter]:
        """The messages that wait for this server, in the order in which they came."""
        ...

    def heard(self, letters: Iterable[int]) -> None:
        """Those letters have been acted on. Hearing one twice must do no harm: the server may die before this."""
        ...

    def archive(self, name: str, *, is_archived: bool) -> None:
        """Hides a job from lists, or shows it again. Raises NotFoundError; ConflictError while it is unfinished."""
        ...

    def delete_job(self, token: int, name: str, note: str = "") -> None:
        """Deletes a job that has ended, with its story, its submission and its uses, in one transaction.

        From then on no call shows the job, and `removals` names it until `removed` is called. note: what the server
        that removes the files has to know, whichever it is. Any live server may
        delete it: nothing is left to do for its holder. Idempotent. Raises NotFoundError for a name that no job has
        had; ConflictError while the job is unfinished, or its nodes or outputs are still being finalized; StaleError
        when the server has been replaced.
        """
        ...

    def removals(self, *, finished: bool = False) -> dict[str, str]:
        """Name to note of deleted jobs whose files may still be there. No new job can take such a name.

        finished: also of those whose files are gone, unless a new job has taken the name.
        """
        ...

    def removing(self, name: str) -> AbstractContextManager[Removal | None]:
        """Holds the removal of a deleted job; None = none is pending, as another server has finished it.

        Until the end of the block, which is to be short, no server finishes this removal, so that no new job gets the
        name. Nothing else is asked of the store within the block.
        """
        ...

    def removed(self, name: str, version: int) -> None:
        """Notes that the files of a deleted job are gone; its name is free again. Idempotent.

        version: of the removal. The removal of a later job of the same name stays.
        """
        ...

    def agreed(self, name: str, value: str) -> str:
        """What the first server that ever asked for this name gave as its value."""
        ...

    def setting(self, name: str) -> str:
        """The value of a setting of these servers; "" = it isn't set."""
        ...

    def set_setting(self, name: str, value: str) -> None:
        """Keeps the value of a setting, or removes it ("")."""
        ...

    def close(self) -> None:
        """Lets go of the database."""
        ...
