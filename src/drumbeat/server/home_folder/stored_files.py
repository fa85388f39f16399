"""Records of the files of jobs and of snapshots."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from drumbeat.model.logs import LogName


@dataclass(frozen=True)
class LogChunk:
    """A piece of one log. Pieces are ordered by their arrival at the server."""

    position: int
    """Increases over all pieces of a job; a follower continues after the last one it has seen."""
    log: LogName
    offset: int
    data: bytes
    at: float


@dataclass(frozen=True)
class StoredFile:
    """A file of a job that users can download. path: relative to the job's folder. size: in bytes.

    sha256: of an output, in hex; "" = unknown.
    """

    path: str
    size: int
    sha256: str = ""


@dataclass(frozen=True)
class JobSpace:
    """The disk usage of one job, in bytes.

    outputs: visible and uncommitted outputs. other: plan, events, journals.
    """

    outputs: int = 0
    logs: int = 0
    checkpoints: int = 0
    other: int = 0

    @property
    def total(self) -> int:
        """The sum of all."""
        return self.outputs + self.logs + self.checkpoints + self.other


@dataclass(frozen=True)
class SnapshotSpace:
    """The disk usage of a snapshot. asked_at: when it was stored or last requested, in seconds since the epoch."""

    digest: str
    size: int
    asked_at: float


def iter_pieces(file: BinaryIO, size: int = 1 << 20) -> Iterator[bytes]:
    """Yields the file in pieces of `size` bytes."""
    while piece := file.read(size):
        yield piece
