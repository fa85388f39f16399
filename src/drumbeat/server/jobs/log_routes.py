"""Routes of a job's logs for readers that don't follow; the others read events (`event_routes.py`)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from fastapi import Query
from starlette.responses import StreamingResponse

from drumbeat.model.api.jobs import LogPage
from drumbeat.server.context import ControlOf
from drumbeat.server.jobs.log_reader import LogReader
from drumbeat.server.jobs.merged_logs import merged_lines
from drumbeat.server.routing import new_router

if TYPE_CHECKING:
    from drumbeat.model.api.jobs import LogPiece
    from drumbeat.server.home_folder import FolderArtifacts

# The end of a job's logs: about so many of the last bytes, beginning with a complete line.

PAGE_BYTES = 1 << 20
MAX_PIECES = 1 << 16
"""Maximum number of pieces in a response, because a short piece takes more memory than its text."""


@dataclass(frozen=True)
class LogTail:
    """The last pieces of a job's logs.

    first: everything older is in pieces up to this position, which is that of the first piece if it was cut. end: the
    position of the last piece.
    """

    pieces: list[LogPiece]
    first: int
    end: int


def read_tail(artifacts: FolderArtifacts, job: str, wanted: int) -> LogTail:
    """Reads the end of the logs, about `wanted` bytes. Blocks on the disk.

    Pieces that were lost in a crash are shorter than recorded; earlier pieces make up for the difference.
    """
    start = end = artifacts.log_end(job)
    pieces: list[LogPiece] = []
    length = 0
    while start and length < wanted and end - start < MAX_PIECES:
        before = max(artifacts.log_start(job, end=start, length=wanted - length), end - MAX_PIECES)
        older = _read_range(artifacts, job, before, start)
        pieces[:0], start = older, before
        length += sum(len(piece.text.encode()) for piece in older)
    return LogTail(*_trimmed(pieces, start, length - wanted), end)


def _read_range(artifacts: FolderArtifacts, job: str, start: int, end: int) -> list[LogPiece]:
    reader = LogReader(artifacts, job, start)
    pieces: list[LogPiece] = []
    while reader.position < end:
        before = reader.position
        pieces += reader.read(PAGE_BYTES)
        if reader.position == before:
            break
    return [piece for piece in pieces if piece.position <= end]


def _trimmed(pieces: list[LogPiece], start: int, surplus: int) -> tuple[list[LogPiece], int]:
    """Drops about `surplus` bytes at the beginning. Returns the pieces, and the position of everything older."""
    skipped = 0
    while skipped < len(pieces) and surplus >= (size := len(pieces[skipped].text.encode())):
        surplus -= size
        start = pieces[skipped].position
        skipped += 1
    kept = pieces[skipped:]
    data = kept[0].text.encode() if kept and surplus > 0 else b""
    at = data.find(b"\n", surplus) + 1
    if at and at < len(data):
        cut = replace(kept[0], offset=kept[0].offset + at, text=data[at:].decode())
        return [cut, *kept[1:]], kept[0].position
    return kept, start


router = new_router("/api/v1", tags=["jobs"])

TAIL = "Return about this many bytes from the end, beginning with a complete line, instead of those after a position."


@router.get("/jobs/{name}/logs")
def logs(
    name: str,
    control: ControlOf,
    after: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=4 << 20, description="Bytes, about.")] = 1 << 20,
    tail: Annotated[int, Query(ge=0, le=4 << 20, description=TAIL)] = 0,
) -> LogPage:
    """Returns pieces of all ranks' logs in the order of their arrival, for readers that don't follow."""
    control.store.load(name)
    if tail:
        last = read_tail(control.artifacts, name, tail)
        return LogPage(tuple(last.pieces), last.end, last.end, last.first)
    reader = LogReader(control.artifacts, name, after)
    end = control.artifacts.log_end(name)
    return LogPage(tuple(reader.read(limit)), reader.position, end)


@router.get(
    "/jobs/{name}/log-text",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
def log_text(
    name: str,
    control: ControlOf,
    times: Annotated[bool, Query(description="Begin each line with the time of its arrival.")] = False,
) -> StreamingResponse:
    """Returns all logs of a job as one text: lines in the order of their arrival, each with its node and rank."""
    control.store.load(name)
    return StreamingResponse(
        merged_lines(control.artifacts, name, has_times=times),
        media_type="text/plain; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}.log"', "X-Content-Type-Options": "nosniff"},
    )
