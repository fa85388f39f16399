"""Snapshots in, a job's files out."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from typing import Annotated, Any

from anyio import CapacityLimiter, from_thread, to_thread
from fastapi import Header, Request, Response
from fastapi import Path as InPath
from starlette.responses import StreamingResponse

from drumbeat.control.control import Control
from drumbeat.protocol.api.jobs import HOLES_HEADER, FileView
from drumbeat.protocol.errors import NotFoundError, RefusedError
from drumbeat.protocol.sparse_files import is_sparse, large_holes
from drumbeat.server import errors
from drumbeat.server.context import ControlOf, away
from drumbeat.server.routing import new_router
from drumbeat.server.url_paths import rest

router = new_router("/api/v1", tags=["files"])

Digest = Annotated[str, InPath(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the tar file, in hex.")]
PIECE = 1 << 20
BINARY = {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}
RANGE_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: BINARY,
    206: BINARY,
    416: {"description": "The range begins behind the end."},
}
UPLOADS = CapacityLimiter(8)
"""Uploads hold a thread each for as long as the sender takes; they get their own few."""


@router.head("/snapshots/{digest}", responses={404: {"description": "It isn't kept here."}})
def has_snapshot(digest: Digest, control: ControlOf) -> Response:
    """Whether this content is kept already."""
    if not control.artifacts.has_snapshot(digest):
        raise NotFoundError("this snapshot isn't kept here", where=digest, fix="Send it with PUT.")
    return Response()


@router.put(
    "/snapshots/{digest}",
    status_code=201,
    responses={200: {"description": "It was kept already."}, 409: {"description": "The bytes have another SHA-256."}},
    openapi_extra={"requestBody": {"required": True, **BINARY}},
)
async def put_snapshot(digest: Digest, control: ControlOf, request: Request) -> Response:
    """Keeps a tar file whose SHA-256 is `digest`; nothing is kept unless it is."""
    if await away(lambda: control.artifacts.has_snapshot(digest)):
        return Response(status_code=200)
    pieces = Arriving(request.stream())
    await to_thread.run_sync(lambda: control.artifacts.add_snapshot(digest, pieces), limiter=UPLOADS)
    return Response(status_code=201)


class Arriving:
    """A request's body for a thread that reads it: as much as it asks for, when it asks."""

    def __init__(self, stream: AsyncIterator[bytes]) -> None:
        self.stream = stream

    def __iter__(self) -> Iterator[bytes]:
        while piece := from_thread.run(self._next):
            yield piece

    async def _next(self) -> bytes:
        gathered = bytearray()
        async for piece in self.stream:
            gathered += piece
            if len(gathered) >= PIECE:
                break
        return bytes(gathered)


@router.get("/jobs/{name}/files")
def list_files(name: str, control: ControlOf) -> list[FileView]:
    """Everything that can be fetched of a job."""
    return [FileView(one.path, one.size) for one in control.jobs.files(name)]


@router.head("/jobs/{name}/files/" + rest("path"), include_in_schema=False)
@router.get(
    "/jobs/{name}/files/" + rest("path"),
    response_class=Response,
    responses=RANGE_RESPONSES,
)
def get_file(
    *,
    name: str,
    path: str,
    control: ControlOf,
    request: Request,
    wanted: Annotated[str, Header(alias="Range")] = "",
    if_range: Annotated[str, Header(alias="If-Range")] = "",
) -> Response:
    """A file as it is now, or one range of it; what is written to it meanwhile isn't in it."""
    found = look(control, name, path)
    whole = Cut(0, found.size)
    cut = cut_of(wanted, found.size) if wanted and if_range in ("", found.etag) else None
    if cut is not None and cut.is_beyond(found.size):
        return range_refusal(wanted, found.size)
    return found.response(cut or whole, is_part=cut is not None, has_body=request.method != "HEAD")


@dataclass(frozen=True)
class Cut:
    """Bytes `start` up to but not including `end`."""

    start: int
    end: int

    def is_beyond(self, size: int) -> bool:
        """Nothing of the file lies in it; of an empty file everything does."""
        return self.start >= size and not (self.start == 0 and size == 0)


@dataclass(frozen=True)
class ServedFile:
    """A file at the moment it was looked at."""

    path: Path
    size: int
    etag: str
    is_sparse: bool = False

    def response(self, cut: Cut, *, is_part: bool, has_body: bool) -> Response:
        """The file, or that part of it."""
        headers = {
            "Content-Length": str(cut.end - cut.start), "ETag": self.etag, "Accept-Ranges": "bytes",
            "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store",
        }  # fmt: skip
        if holes := self._holes():
            headers[HOLES_HEADER] = ",".join(f"{start}-{end}" for start, end in holes)
        if is_part and self.size:
            headers["Content-Range"] = f"bytes {cut.start}-{cut.end - 1}/{self.size}"
        status = 206 if is_part and self.size else 200
        if not has_body:
            return Response(status_code=status, headers=headers, media_type="application/octet-stream")
        return StreamingResponse(self.pieces(cut), status, headers, media_type="application/octet-stream")

    def _holes(self) -> list[tuple[int, int]]:
        if not self.is_sparse:
            return []
        with self.path.open("rb") as file:
            return large_holes(file.fileno(), self.size)

    def pieces(self, cut: Cut) -> Iterator[bytes]:
        """The bytes of that part."""
        with self.path.open("rb") as file:
            file.seek(cut.start)
            left = cut.end - cut.start
            while left and (piece := file.read(min(left, PIECE // 4))):
                left -= len(piece)
                yield piece


def look(control: Control, name: str, path: str) -> ServedFile:
    """The file of a job that lies there."""
    place = control.jobs.open_file(name, path)
    try:
        status = os.stat(place)  # noqa: PTH116 - os.stat and Path.stat are the same
    except FileNotFoundError:
        raise NotFoundError("the job has no such file", where=path[:300]) from None
    if not S_ISREG(status.st_mode):
        raise NotFoundError("this isn't a file", where=path[:300], fix=f"GET /api/v1/jobs/{name}/files lists them.")
    return ServedFile(place, status.st_size, f'"{status.st_mtime_ns:x}-{status.st_size:x}"', is_sparse(status))


RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)


def cut_of(wanted: str, size: int) -> Cut | None:
    """The one range asked for.

    None where there are several, or none that can be read: then the whole file is sent, as RFC 9110 allows.
    """
    match = RANGE.fullmatch(wanted.strip())
    if match is None or match.group(0) == "bytes=-":
        return None
    first, last = match.groups()
    if not first:
        return Cut(max(0, size - int(last)), size)
    end = min(int(last) + 1, size) if last else size
    return Cut(int(first), end) if int(first) < end or int(first) >= size else None


def range_refusal(wanted: str, size: int) -> Response:
    """The answer to a range that is beyond the end of a file of that size."""
    error = RefusedError("the range begins behind the file's end", where=wanted)
    return errors.response(error, 416, {"Content-Range": f"bytes */{size}"})
