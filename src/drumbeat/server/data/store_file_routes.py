"""Routes for files in stores. The server passes them on, so a user neither needs nor sees a store's credentials."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Annotated

from anyio import CapacityLimiter, to_thread
from fastapi import Header, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import StreamingResponse

from drumbeat.jobfile.data.paths import AssetReference, JobOutputReference, Local, StoreReference, reference_to
from drumbeat.model.api.data import EntryView, ListingView, Written
from drumbeat.model.errors import ForbiddenError, NotFoundError, RefusedError, SpecError
from drumbeat.model.folder_layout import MANIFEST
from drumbeat.model.input_listing import ListedFile, Listing
from drumbeat.model.principal import Principal, Role
from drumbeat.ports.data import DataAccess
from drumbeat.server.context import ControlOf, PrincipalOf, away
from drumbeat.server.data.manifests import Manifest, put, read_current, replace_file
from drumbeat.server.file_bodies import BINARY, RANGE_RESPONSES, BodyReader, parse_range, range_refusal
from drumbeat.server.routing import new_router

WRITES = CapacityLimiter(8)
"""Threads for writes, separate because a slow store mustn't delay snapshots."""

router = new_router("/api/v1/storage", tags=["storage"])

Uri = Annotated[
    str, Query(min_length=1, max_length=4096, description="`azureml://datastores/…`, `https://…`, `azureml:name:1` …")
]
FilePath = Annotated[str, Query(min_length=1, max_length=4096, description="Of the file, below the address.")]


class ManifestFile(BaseModel):
    """A file of a manifest."""

    model_config = ConfigDict(extra="forbid")

    size: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class ManifestBody(BaseModel):
    """The manifest of a folder. by: its writer, for messages. complete: whether every file has been written."""

    model_config = ConfigDict(extra="forbid")

    uri: str = Field(min_length=1, max_length=4096)
    by: str = Field(max_length=255)
    complete: bool
    files: dict[str, ManifestFile] = {}


@router.get("/entries")
def list_entries(uri: Uri, control: ControlOf, principal: PrincipalOf) -> list[EntryView]:
    """Lists the files and folders directly in a folder."""
    entries = control.data.entries(_exact(uri, control, principal))
    return [EntryView(one.path, one.size, one.is_folder) for one in entries if one.path.rsplit("/", 1)[-1] != MANIFEST]


@router.get("/listing")
def list_files_at(
    uri: Uri,
    control: ControlOf,
    principal: PrincipalOf,
    is_file: bool = False,
    either: bool = False,
    is_partial: bool = False,
) -> ListingView:
    """Lists every file below a URI, or the one file at it. either: whichever of the two exists.

    is_partial: also list an incomplete folder, to continue writing it.
    """
    exact = _exact(uri, control, principal)
    data = control.setting.data if is_partial and control.setting.data else control.data
    listing = _listed(data, exact, is_file=is_file, either=either)
    asset = reference_to(uri, "uri")
    if isinstance(asset, AssetReference) and not is_partial:
        control.catalogs.data.require_current(asset, listing)
    return ListingView(exact, listing.key, listing.size, listing.files)


@router.post("/file", response_class=Response, responses=RANGE_RESPONSES)
def read_file_at(
    uri: Uri,
    file: ListedFile,
    control: ControlOf,
    principal: PrincipalOf,
    wanted: Annotated[str, Header(alias="Range")] = "",
) -> Response:
    """Returns a listed file, or a range of it. Refused if its content has changed since."""
    if file.size < 0:
        raise RefusedError(f"{file.size} is not a size", where="size", fix="Send the size from the listing.")
    cut = parse_range(wanted, file.size) if wanted else None
    if cut is not None and cut.is_beyond(file.size):
        return range_refusal(wanted, file.size)
    is_part = cut is not None and file.size > 0  # An empty file has no ranges.
    start, end = (cut.start, cut.end) if cut else (0, file.size)
    exact = _exact(uri, control, principal)
    pieces = iter(control.data.read(exact, file, start, end - start)) if end > start else iter(())
    first = next(pieces, b"")  # Errors of the store are raised here.
    headers = {"Content-Length": str(end - start), "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    if is_part:
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{file.size}"
    status = 206 if is_part else 200
    return StreamingResponse(_all(first, pieces), status, headers, media_type="application/octet-stream")


@router.put("/file", openapi_extra={"requestBody": {"required": True, **BINARY}})
async def write_file_at(
    uri: Uri,
    path: FilePath,
    control: ControlOf,
    request: Request,
    content_length: Annotated[int, Header(ge=0)],
    is_listed: bool = False,
) -> Written:
    """Writes a file below a URI atomically. The response has its SHA-256.

    Updates the manifests of its folders that list it. is_listed: the caller writes the manifest of the folder at the
    URI for all files, and leaves this one out until it is written.
    """
    _require_inner(path)
    exact = await away(lambda: _to_write(uri, control))
    pieces = BodyReader(request.stream())
    write = control.data.write if is_listed else partial(replace_file, control.data)
    put_there = lambda: write(exact, path, pieces, content_length)  # noqa: E731 - it runs in a thread
    return await to_thread.run_sync(put_there, limiter=WRITES)


@router.get("/manifest")
def read_manifest(uri: Uri, control: ControlOf, principal: PrincipalOf) -> ManifestBody:
    """Returns the manifest of a folder that drumbeat wrote, complete or not; 404 if there is none."""
    manifest = read_current(control.data, _exact(uri, control, principal))
    if manifest is None:
        raise NotFoundError("this folder has no manifest", where=uri[:300])
    files = {path: ManifestFile(size=size, sha256=sha256) for path, (size, sha256) in manifest.files.items()}
    return ManifestBody(uri=uri, by=manifest.by, complete=manifest.is_complete, files=files)


@router.post("/manifest", status_code=204)
def write_manifest(body: ManifestBody, control: ControlOf) -> Response:
    """Writes the manifest of a folder. Reading a folder whose manifest is incomplete is refused."""
    files = {path: (one.size, one.sha256) for path, one in body.files.items()}
    for path in files:
        _require_inner(path)
    put(control.data, _to_write(body.uri, control), Manifest(body.by, body.complete, files))
    return Response(status_code=204)


def _listed(data: DataAccess, uri: str, *, is_file: bool, either: bool) -> Listing:
    if not either:
        return data.listing(uri, is_file=is_file)
    try:
        return data.listing(uri, is_file=False)
    except (NotFoundError, RefusedError) as error:
        try:
            return data.listing(uri, is_file=True)
        except (NotFoundError, RefusedError):
            raise error from None


def _exact(uri: str, control: ControlOf, principal: Principal | None = None) -> str:
    """Returns the URI in a store; for the name of data, that of its version.

    principal: the reader; None = the URI is written to. Raises SpecError, NotFoundError, ForbiddenError.
    """
    match reference_to(uri, "uri"):
        case AssetReference() as asset:
            return control.catalogs.data.show(asset.name, asset.version).uri
        case Local(path):
            raise SpecError(f"{path} is a path on a machine, not a URI", where="uri")
        case (StoreReference() | JobOutputReference()) as place:
            return uri if uri.startswith("azureml:") else place.uri
        case _:
            if principal and principal.role is Role.READER and not control.catalogs.data.is_registered(uri):
                what = f"{principal.user} is a reader here, and the server fetches no other addresses for readers"
                fix = "Name registered data (azureml:NAME:VERSION), an output of a job, or a place in a datastore."
                raise ForbiddenError(what, where="uri", fix=fix)
            return uri


def _to_write(uri: str, control: ControlOf) -> str:
    """Returns a URI that may be written to. Raises RefusedError for a version of data, SpecError."""
    if isinstance(reference_to(uri, "uri"), AssetReference):
        what = f"{uri[:300]} is a version of data, and a version never changes"
        raise RefusedError(what, where="uri", fix="Create a new one: drumbeat data create NAME --path FOLDER")
    return _exact(uri, control)


def _require_inner(path: str) -> None:
    parts = path.split("/")
    if path.startswith("/") or "\0" in path or any(part in ("", ".", "..") for part in parts):
        raise RefusedError("the path leaves its folder, or has an empty part", where=path[:300])


def _all(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest
