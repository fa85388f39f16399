"""What the core asks of the outside: Protocols whose docstrings are the contract.

Every adapter passes the contract suites in `drumbeat.testing`. All calls are synchronous and may block; the control
room runs them where blocking does no harm. Foreign exceptions are mapped to `drumbeat.protocol.errors` by the adapter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Protocol

from drumbeat.core.events import AgentSaid, CancelRequested, Effect, Loss, StoryEntry
from drumbeat.core.job import Job, Slot
from drumbeat.core.states import State
from drumbeat.protocol.plan import Plan


class Clock(Protocol):
    """Time as an argument."""

    def now(self) -> datetime:
        """The wall clock, aware, in UTC: for people."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back: for waiting."""
        ...


# --- the store --------------------------------------------------------------------------------------------------
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
    """A new job, and the key that makes submitting it twice the same as once."""

    key: str
    job: Job
    spec: dict[str, object]
    story: tuple[StoryEntry, ...] = ()


@dataclass(frozen=True)
class Change:
    """One job's new value with all that belongs to it; written whole or not at all.

    version: the job's version that the change was made from. effects: appended to the outbox under the keys
    (job, attempt, n), n counted on from what the job has. done: outbox rows that are finished. reserve: slots taken
    by (job, attempt). release: attempts whose slots are given back. booked: what `Store.booked` said before the slots
    were chosen; if anybody has booked in between, nothing is written.
    """

    job: Job
    version: int
    story: tuple[StoryEntry, ...] = ()
    effects: tuple[Effect, ...] = ()
    done: tuple[int, ...] = ()
    reserve: tuple[Slot, ...] = ()
    release: tuple[int, ...] = ()
    booked: int | None = None


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


Message = AgentSaid | CancelRequested
"""What can come to a server that doesn't hold the job."""


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
class JobFilter:
    """Which jobs to list, newest first. after: name of the last job of the page before."""

    states: tuple[State, ...] = ()
    experiment: str | None = None
    is_archived: bool | None = False
    limit: int = 100
    after: str | None = None


class Store(Protocol):
    """Jobs, stories, the outbox, the inbox, reservations, aliases, computes. What a call has returned from is durable.

    A server opens the store with `lease()`; every write to a job carries that token, and a write to a job that another
    live server holds raises StaleError and changes nothing. The wall clock decides nothing about leases.
    """

    def lease(self, *, is_alone: bool, address: str = "") -> int:
        """A token for this server, larger than any before. is_alone: no other server can be alive (a file lock
        says so), so what the others held is this one's at once; else a silent holder is watched before it is replaced.
        address: where agents find the server.
        """
        ...

    def leave(self, token: int) -> None:
        """The server ends in good order: whoever claims next needn't wait for its silence. Twice is as once."""
        ...

    def addresses(self) -> list[str]:
        """Where the servers are that haven't been replaced and haven't left; the newest first."""
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
        ConflictError.
        """
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

    def story(self, name: str) -> list[StoryEntry]:
        """All lines of a job's story, oldest first. Raises NotFoundError."""
        ...

    def outbox(self, token: int | None = None) -> list[PendingEffect]:
        """Every effect that isn't done, oldest first. token: only of jobs that this server holds."""
        ...

    def tried(self, effect: int) -> None:
        """Counts a try of an effect that failed."""
        ...

    def done(self, effect: int, *, release: tuple[str, int] | None = None) -> None:
        """An effect is finished, and with it (job, attempt) gives its slots back. Twice is the same as once."""
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
        """Keeps a message for the server that holds the job. For a job that has ended it is nothing; raises
        NotFoundError when there is no such job.
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

    def aliases(self) -> dict[tuple[str, str], str]:
        """(kind, name) to target; kinds are `compute`, `environment`, `instance_type`."""
        ...

    def set_alias(self, kind: str, name: str, target: str | None) -> None:
        """Sets an alias, or removes it (None). Removing one that isn't there raises NotFoundError."""
        ...

    def computes(self) -> dict[str, dict[str, object]]:
        """Name to spec of the computes that people have made."""
        ...

    def set_compute(self, name: str, spec: dict[str, object] | None) -> None:
        """Keeps a compute's spec, or removes it (None). Removing one that isn't there raises NotFoundError."""
        ...

    def close(self) -> None:
        """Lets go of the database."""
        ...


# --- files ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class LogChunk:
    """A piece of one rank's log, in the order in which pieces arrived at the server.

    position: grows over all pieces of a job; a follower continues after the last one it has seen.
    """

    position: int
    attempt: int
    round: int
    node: int
    rank: int
    offset: int
    data: bytes
    at: float


@dataclass(frozen=True)
class StoredFile:
    """A file of a job that a person can fetch. path: relative to the job's folder. size: bytes."""

    path: str
    size: int


class Artifacts(Protocol):
    """The files of jobs and the snapshots of code and data. Every path is contained: one that would leave its folder
    raises ForbiddenError. A disk that refuses raises StorageError with its own word for it.
    """

    def has_snapshot(self, digest: str) -> bool:
        """Whether the content with this SHA-256 is kept whole."""
        ...

    def add_snapshot(self, digest: str, pieces: Iterable[bytes]) -> None:
        """Keeps a tar file. Raises ConflictError when the bytes don't have that SHA-256; nothing is kept then."""
        ...

    def open_snapshot(self, digest: str) -> BinaryIO:
        """The tar file. Raises NotFoundError."""
        ...

    def append_log(self, job: str, file: str, offset: int, data: bytes) -> int:
        """Adds what of `data` (which begins at `offset`) lies beyond the log's size; gives the size afterwards.

        A gap is never made: an offset beyond the size adds nothing. file: as `protocol.layout.log_file` names it.
        """
        ...

    def log_chunks(self, job: str, *, after: int = 0, limit: int = 1 << 20) -> list[LogChunk]:
        """Pieces of all logs of a job that arrived after position `after`, in order, about `limit` bytes at most."""
        ...

    def append_output(  # noqa: PLR0913 (whose, which, where, what: the words of its route)
        self, job: str, attempt: int, node: int, path: str, offset: int, data: bytes
    ) -> int:
        """Like `append_log`, for an output file that isn't shown before `commit_outputs`. path: below `outputs/`.

        Raises StaleError when a newer attempt has shown its outputs.
        """
        ...

    def commit_outputs(self, job: str, attempt: int, node: int, files: dict[str, tuple[int, str]]) -> list[str]:
        """Shows the node's outputs at once if every file has the size and SHA-256 that `files` says; gives the paths
        that don't (and shows nothing): one that can't become right begins anew at offset 0. A path that a lower node
        gave already keeps that node's file. A newer attempt's outputs take the place of an older one's, whose late
        commit raises StaleError. The same commit again is the same success.
        """
        ...

    def write_text(self, job: str, path: str, text: str) -> None:
        """Puts a small file (`plan.json`, `story.jsonl`) into the job's folder, whole or not at all."""
        ...

    def files(self, job: str) -> list[StoredFile]:
        """Everything that a person can fetch of a job, by path."""
        ...

    def open_file(self, job: str, path: str) -> Path:
        """The file's place. Raises NotFoundError, ForbiddenError."""
        ...


# --- engines ----------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Machine:
    """A machine of a compute: what it has, whoever uses it now.

    word: the engine's own for how it is. unusable: why nothing may be started on it now, "" = it may be; what runs
    there already isn't touched by that.
    """

    name: str
    cpus: int
    gpus: tuple[str, ...] = ()
    memory_mib: int = 0
    word: str = ""
    unusable: str = ""


@dataclass(frozen=True)
class Gang:
    """N nodes for one attempt of a job. Its name is deterministic: starting it twice starts it once.

    secret: what its agents enrol with; it must not show in arguments, scripts or logs. servers: URLs that its agents
    call, tried in order. ca: the certificate (PEM) that they check these with, "" = they aren't https.
    """

    job: str
    attempt: int
    plan: Plan
    slots: tuple[Slot, ...]
    secret: str = field(repr=False)
    servers: tuple[str, ...]
    ca: str = ""

    @property
    def name(self) -> str:
        """The name under which the engine knows it."""
        return f"{self.job}.{self.attempt}"


@dataclass(frozen=True)
class Sighting:
    """What an engine says of a gang. word: its own. gone: nodes that it knows to have ended, with a sentence each.

    cause: why they are gone. waits: the gang stands in the engine's own queue: nobody is to be missed yet.
    """

    word: str
    gone: dict[int, str] = field(default_factory=dict[int, str])
    cause: Loss = Loss.LOST
    waits: bool = False


class Engine(Protocol):
    """Starts N agents, says what became of them, stops them, tells about machines. Nothing else.

    has_queue: it chooses machines and waits for them itself; what slots a gang has there says only how large it is.
    """

    name: str
    has_queue: bool

    def machines(self) -> list[Machine]:
        """The machines that there are, in the same order each time, as they were when last looked at: it's quick."""
        ...

    def server_addresses(self) -> list[str]:
        """Addresses of this machine at which the agents of this engine reach its server; [] = loopback."""
        ...

    def start(self, gang: Gang) -> str:
        """Starts the agents, all or none, and gives the engine's word for it. A gang of this name that runs already is
        left alone. Raises EngineError with a sentence when it can't be started; UnreachableError when a machine (its
        `where`) doesn't answer, so that another one may do.
        """
        ...

    def rendered(self, gang: Gang) -> str:
        """What it would hand to a scheduler for the gang, as text; "" = it hands nothing over."""
        ...

    def observe(self, gang: Gang) -> Sighting:
        """What is known of the gang. An agent that died is started again where the engine does so itself."""
        ...

    def stop(self, name: str) -> None:
        """Ends every process of a gang and gives its place back. None of it remains when this returns; a gang that
        isn't there is no error.
        """
        ...

    def sweep(self, wanted: set[str]) -> list[str]:
        """Ends every gang under this server's hand but the wanted ones, by name, and gives the names of those ended.

        Called once, before anything is started: what an earlier server left, or a machine that went down.
        """
        ...

    def close(self) -> None:
        """The compute is no more, or the server ends with nothing unfinished on it: what the engine made for it is
        taken away. Twice is as once.
        """
        ...


class Doors(Protocol):
    """Listeners for agents on other machines: TLS, and nothing but the agents' protocol."""

    @property
    def ca(self) -> str:
        """The certificate (PEM) that agents check the server's own with."""
        ...

    def urls(self, addresses: Sequence[str]) -> tuple[str, ...]:
        """Listens at these addresses, where it doesn't yet, and gives their URLs; quick when it does already.

        Raises EngineError when it can't listen at one of them.
        """
        ...


def iter_pieces(file: BinaryIO, size: int = 1 << 20) -> Iterator[bytes]:
    """The file in pieces of `size` bytes."""
    while piece := file.read(size):
        yield piece
