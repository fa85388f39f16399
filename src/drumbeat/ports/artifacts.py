"""The files of jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from drumbeat.ports.run_files import RunFiles
from drumbeat.protocol.logs import LogName


@dataclass(frozen=True)
class LogChunk:
    """A piece of one log, in the order in which pieces arrived at the server."""

    position: int
    """Grows over all pieces of a job; a follower continues after the last one it has seen."""
    log: LogName
    offset: int
    data: bytes
    at: float


@dataclass(frozen=True)
class StoredFile:
    """A file of a job that a person can fetch. path: relative to the job's folder. size: bytes.

    sha256: in hex, of an output; "" = not known.
    """

    path: str
    size: int
    sha256: str = ""


@dataclass(frozen=True)
class JobSpace:
    """Bytes of disk that the files of one job take.

    outputs: those that can be fetched, and parts that were sent and never shown. other: plan, story, journals.
    """

    outputs: int = 0
    logs: int = 0
    checkpoints: int = 0
    other: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.outputs + self.logs + self.checkpoints + self.other


@dataclass(frozen=True)
class SnapshotSpace:
    """Bytes of disk that a snapshot takes. asked_at: when it came or was last asked for, in seconds since the epoch."""

    digest: str
    size: int
    asked_at: float


class Artifacts(Protocol):
    """The files of jobs and the snapshots of code and data. Every path is contained: one that would leave its folder
    raises ForbiddenError. A disk that refuses raises StorageError with its own word for it.
    """

    @property
    def of_runs(self) -> RunFiles:
        """The artifacts of MLflow's runs, those of jobs among their outputs."""
        ...

    def has_snapshot(self, digest: str) -> bool:
        """Whether the content with this SHA-256 is kept whole. That it was asked for now is noted: see
        `remove_snapshot`.
        """
        ...

    def add_snapshot(self, digest: str, pieces: Iterable[bytes]) -> None:
        """Keeps a tar file. Raises ConflictError when the bytes don't have that SHA-256; nothing is kept then."""
        ...

    def open_snapshot(self, digest: str) -> BinaryIO:
        """The tar file. Raises NotFoundError."""
        ...

    def remove_snapshot(self, digest: str, *, unasked_since: float) -> bool:
        """Removes a snapshot, unless it came or was asked for after that moment (seconds since the epoch): a job that
        names it may be on its way. Whether it is gone; one that isn't there is.
        """
        ...

    def snapshots(self) -> list[SnapshotSpace]:
        """Every snapshot that is kept, by digest."""
        ...

    def job_space(self, job: str | None = None) -> dict[str, JobSpace]:
        """What the files of a job take, or those of each job; one without files isn't there. Looks at every file: it
        may take long.
        """
        ...

    def set_aside_job(self, job: str) -> None:
        """Takes all files of a job out of sight at once; they take space until `remove_job`. Idempotent.

        What has the job's name from then on is another job's. Raises StorageError.
        """
        ...

    def remove_job(self, job: str) -> None:
        """Removes the files of jobs of this name that were set aside, and none that are in sight. Idempotent.

        What a call that was killed has left is removed by the next one. Raises StorageError.
        """
        ...

    def remove_logs(self, job: str) -> None:
        """Removes the logs and checkpoints of a job, and parts that were sent and never shown; outputs, plan and story
        stay. Idempotent. Raises StorageError.
        """
        ...

    def append_log(self, job: str, file: str, offset: int, data: bytes) -> int:
        """Adds what of `data` (which begins at `offset`) lies beyond the log's size; gives the size afterwards.

        A gap is never made: an offset beyond the size adds nothing. file: the path of a `LogName`.
        """
        ...

    def settle_logs(self, job: str, attempt: int, round: int, node: int) -> None:
        """The logs of a node's round are on the disk when this returns: soon nobody has them but this store.

        Of a node that has no log nothing is done. Raises StorageError.
        """
        ...

    def log_chunks(self, job: str, *, after: int = 0, limit: int = 1 << 20) -> list[LogChunk]:
        """Pieces of all logs of a job that arrived after position `after`, in order, about `limit` bytes at most."""
        ...

    def log_end(self, job: str) -> int:
        """The position of the last piece that there is now; 0 = there is none."""
        ...

    def log_start(self, job: str, *, end: int, length: int) -> int:
        """The position after which the fewest pieces up to `end` come that have `length` bytes; 0 = all have fewer.

        No data is read: of a piece that a crash took, the length that it had counts.
        """
        ...

    def append_output(  # noqa: PLR0913 (whose, which, where, what: the words of its route)
        self, job: str, attempt: int, node: int, path: str, offset: int, data: bytes, hole: int = 0
    ) -> int:
        """Like `append_log`, for an output file that isn't shown before `commit_outputs`. path: below `outputs/`.

        hole: bytes that follow the data, are zero and take no space.

        Raises StaleError when a newer attempt has shown its outputs.
        """
        ...

    def commit_outputs(self, job: str, attempt: int, node: int, files: dict[str, tuple[int, str]]) -> list[str]:
        """Shows the node's outputs at once if every file has the size and SHA-256 that `files` says; gives the paths
        that don't (and shows nothing): one that can't become right begins again at offset 0. A path that a lower node
        gave already keeps that node's file. A newer attempt's outputs take the place of an older one's, whose late
        commit raises StaleError. The same commit again is the same success.
        """
        ...

    def drop_parts(self, job: str, attempt: int) -> None:
        """Removes what was sent of an attempt's outputs and never shown; its nodes are gone. Nothing is no error."""
        ...

    def write_text(self, job: str, path: str, text: str) -> None:
        """Puts a small file (`plan.json`, `story.jsonl`) into the job's folder, whole or not at all."""
        ...

    def keep_text(self, job: str, path: str, text: str) -> str:
        """Like `write_text`, but what is there already stays, whoever else writes it at the same time; gives that."""
        ...

    def files(self, job: str) -> list[StoredFile]:
        """Everything that a person can fetch of a job, by path."""
        ...

    def open_file(self, job: str, path: str) -> Path:
        """The file's place. Raises NotFoundError, ForbiddenError."""
        ...


def iter_pieces(file: BinaryIO, size: int = 1 << 20) -> Iterator[bytes]:
    """The file in pieces of `size` bytes."""
    while piece := file.read(size):
        yield piece
