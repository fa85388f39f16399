"""The files of jobs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from drumbeat.model.logs import LogName


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

    outputs: those that can be fetched, and parts that were sent and never shown. other: plan, events, journals.
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


def iter_pieces(file: BinaryIO, size: int = 1 << 20) -> Iterator[bytes]:
    """The file in pieces of `size` bytes."""
    while piece := file.read(size):
        yield piece
