"""Routes for uploading snapshots and downloading the files of jobs."""

from __future__ import annotations

import os
from stat import S_ISREG
from typing import Annotated, Literal

from anyio import to_thread
from fastapi import Header, Query, Request, Response
from fastapi import Path as InPath

from drumbeat.model.api.jobs import SIZES_HEADER, FileView
from drumbeat.model.errors import NotFoundError
from drumbeat.model.sparse_files import is_sparse
from drumbeat.server.context import ControlOf, away
from drumbeat.server.control import Control
from drumbeat.server.file_bodies import (
    BINARY,
    RANGE_RESPONSES,
    UPLOADS,
    BodyReader,
    ByteRange,
    ServedFile,
    parse_range,
    range_refusal,
)
from drumbeat.server.jobs import html_preview
from drumbeat.server.routing import new_router
from drumbeat.server.url_paths import rest

router = new_router("/api/v1", tags=["files"])

MAX_CONTENTS = 64
MAX_CONTENTS_BYTES = 8 << 20
"""Of files whose contents are sent together."""

Digest = Annotated[str, InPath(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the tar file, in hex.")]


@router.head("/snapshots/{digest}", responses={404: {"description": "The server doesn't have it."}})
def has_snapshot(digest: Digest, control: ControlOf) -> Response:
    """Whether the server has this snapshot."""
    if not control.artifacts.has_snapshot(digest):
        raise NotFoundError("the server doesn't have this snapshot", where=digest, fix="Send it with PUT.")
    return Response()


@router.put(
    "/snapshots/{digest}",
    status_code=201,
    responses={200: {"description": "The server had it."}, 409: {"description": "The bytes have another SHA-256."}},
    openapi_extra={"requestBody": {"required": True, **BINARY}},
)
async def put_snapshot(digest: Digest, control: ControlOf, request: Request) -> Response:
    """Stores a tar file if its SHA-256 is `digest`."""
    if await away(lambda: control.artifacts.has_snapshot(digest)):
        return Response(status_code=200)
    pieces = BodyReader(request.stream())
    await to_thread.run_sync(lambda: control.artifacts.add_snapshot(digest, pieces), limiter=UPLOADS)
    return Response(status_code=201)


@router.get("/jobs/{name}/files")
def list_files(name: str, control: ControlOf) -> list[FileView]:
    """Lists the files of a job that can be downloaded."""
    return [FileView(one.path, one.size) for one in control.jobs.files(name)]


@router.get("/jobs/{name}/file-contents", response_class=Response, responses={200: BINARY})
def get_contents(
    name: str,
    control: ControlOf,
    path: Annotated[list[str], Query(min_length=1, max_length=MAX_CONTENTS, description="May be repeated.")],
) -> Response:
    """Returns small files, one after the other in the order asked for: many images cost one request.

    The header `Drumbeat-Sizes` has their sizes; -1 is that of a file that isn't there, or with which the response would
    have more than 8 MiB.
    """
    control.store.load(name)  # An unknown job is refused.
    contents: list[bytes | None] = []
    left = MAX_CONTENTS_BYTES
    for one in path:
        contents.append(_content(control, name, one, left))
        left -= len(contents[-1] or b"")
    headers = {
        SIZES_HEADER: ",".join("-1" if one is None else str(len(one)) for one in contents),
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
    }
    return Response(b"".join(one or b"" for one in contents), headers=headers, media_type="application/octet-stream")


def _content(control: Control, name: str, path: str, most: int) -> bytes | None:
    """Returns what is in a file; None = it isn't there, or is larger."""
    try:
        file = look(control, name, path)
    except NotFoundError:
        return None
    if file.size > most:
        return None
    with file.path.open("rb") as opened:
        return opened.read(file.size)


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
    preview: Annotated[
        Literal["html", ""],
        Query(description="`html`: the file as a page for a frame, whose policy forbids scripts and requests."),
    ] = "",
) -> Response:
    """Returns a file, or one range of it, with its size at the time of the request."""
    file = look(control, name, path)
    if preview:
        return html_preview.response(file)
    whole = ByteRange(0, file.size)
    cut = parse_range(wanted, file.size) if wanted and if_range in ("", file.etag) else None
    if cut is not None and cut.is_beyond(file.size):
        return range_refusal(wanted, file.size)
    return file.response(cut or whole, is_part=cut is not None, has_body=request.method != "HEAD")


def look(control: Control, name: str, path: str) -> ServedFile:
    """Returns the file of a job at a path. Raises NotFoundError."""
    place = control.jobs.open_file(name, path)
    try:
        status = os.stat(place)  # noqa: PTH116 - os.stat and Path.stat are the same
    except FileNotFoundError:
        raise NotFoundError("the job has no such file", where=path[:300]) from None
    if not S_ISREG(status.st_mode):
        raise NotFoundError("this isn't a file", where=path[:300], fix=f"GET /api/v1/jobs/{name}/files lists them.")
    return ServedFile(place, status.st_size, f'"{status.st_mtime_ns:x}-{status.st_size:x}"', is_sparse(status))
