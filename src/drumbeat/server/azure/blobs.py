"""The part of the protocol of Azure's Blob storage that its machine-learning clients use.

Bodies are streamed to their store, and never held in memory. Blocks wait in files of the server until their list comes.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

from anyio import CapacityLimiter, to_thread
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from drumbeat.model.errors import DrumbeatError, NotFoundError
from drumbeat.server.azure import sas
from drumbeat.server.azure.catalog import AzureCatalog
from drumbeat.server.azure.containers import ARTIFACTS, Blob, BlobContainer, container, file_pieces, require_inner
from drumbeat.server.azure.errors import BlobError, as_blob_error, blob_response
from drumbeat.server.control import Control
from drumbeat.server.file_bodies import BodyReader, ByteRange, parse_range
from drumbeat.server.home_folder.atomic_files import require_room

T = TypeVar("T")
BLOBS = "/blob/"
PATH = re.compile(r"/blob/(?P<account>[^/]+)/(?P<container>[^/]+)(?:/(?P<name>.*))?", re.DOTALL)
WRITES = CapacityLimiter(16)
"""Threads for uploads: a client sends several blocks at once, and each is held as long as its sender takes."""
MAX_BLOCK = 4000 << 20
MAX_LISTED = 5000
"""Blobs on a page of a list."""
MAX_LIST_BODY = 8 << 20
MAX_BLOCKS = 50_000
BLOCK_LIFE_S = 86_400.0 * 2
LAST_MODIFIED = "Thu, 01 Jan 1970 00:00:00 GMT"
"""Stores don't all tell a time, and no client of ours compares it: contents are told apart by their tags."""
_META = "x-ms-meta-"


@dataclass(frozen=True)
class BlobPlace:
    """What a request is about. folder: of the server, for uploads."""

    control: Control
    catalog: AzureCatalog
    folder: Path
    container: str
    name: str
    may_write: bool

    def open(self) -> BlobContainer:
        """Returns the container. Raises NotFoundError."""
        return container(self.control, self.folder, self.container)

    @property
    def key(self) -> str:
        """A name for the blob that fits everywhere."""
        return hashlib.sha256(f"{self.container}\0{self.name}".encode()).hexdigest()

    @property
    def blocks(self) -> Path:
        """The folder with the blocks of the blob that wait for their list."""
        return self.folder / "blocks" / self.key


async def answer(request: Request, place: BlobPlace) -> Response:
    """Answers a request whose signature has been verified; refusals have the form of Azure's stores."""
    has_body = request.method != "HEAD"
    try:
        return await _answer(request, place)
    except BlobError as error:
        return blob_response(error, has_body=has_body)
    except DrumbeatError as error:
        return blob_response(as_blob_error(error), has_body=has_body)


async def _answer(request: Request, place: BlobPlace) -> Response:
    query, kind = request.query_params, request.query_params.get("comp", "")
    if request.method in ("GET", "HEAD"):
        if kind == "list" and query.get("restype") == "container" and not place.name:
            return await _away(lambda: _list(place, query))
        if kind in ("", "metadata"):
            return await _away(lambda: _read(place, request))
    if request.method == "PUT":
        if not place.may_write:
            raise BlobError(403, "AuthorizationPermissionMismatch", "This signature is for reading only.")
        require_inner(place.name)
        match kind:
            case "":
                return await _put(request, place)
            case "block":
                return await _put_block(request, place)
            case "blocklist":
                body = await _body(request)
                return await _away(lambda: _put_list(place, body, _metadata(request.headers), request))
            case "metadata":
                return await _away(lambda: _put_metadata(place, _metadata(request.headers)))
            case _:
                pass
    what = f"drumbeat doesn't answer {request.method} with comp={kind[:40]!a} of the Blob protocol."
    raise BlobError(400, "UnsupportedQueryParameter", what)


async def _away(call: Callable[[], T]) -> T:
    return await to_thread.run_sync(call, limiter=WRITES)


async def _body(request: Request) -> bytes:
    gathered = bytearray()
    async for piece in request.stream():
        gathered += piece
        if len(gathered) > MAX_LIST_BODY:
            raise BlobError(413, "RequestBodyTooLarge", f"A list of blocks has at most {MAX_LIST_BODY:,} bytes.")
    return bytes(gathered)


# --- reading ---------------------------------------------------------------------------------------------------------
def _read(place: BlobPlace, request: Request) -> Response:
    if not place.name:
        place.open()
        return Response(headers=_headers(""))
    opened = place.open()
    if place.name.endswith("/"):  # Clients ask in this way whether there is a folder; blobs don't know any.
        raise NotFoundError("there is no such blob", where=place.name[:300])
    blob = opened.find(place.name)
    headers = {
        **_headers(blob.tag), "x-ms-blob-type": "BlockBlob", "Accept-Ranges": "bytes",
        "x-ms-creation-time": LAST_MODIFIED, **_shown_metadata(place, blob),
    }  # fmt: skip
    if_match = request.headers.get("if-match", "")
    if if_match not in ("", "*", headers["ETag"]):
        raise BlobError(412, "ConditionNotMet", "The blob has changed since it was looked at.")
    wanted = request.headers.get("x-ms-range") or request.headers.get("range") or ""
    if request.method == "HEAD":
        return _with_length(Response(headers=headers, media_type="application/octet-stream"), blob.size)
    cut = parse_range(wanted, blob.size) if wanted else None
    if cut is not None and (cut.start >= blob.size):
        raise BlobError(416, "InvalidRange", "The range begins after the end of the blob.")
    status = 200 if cut is None else 206
    part = cut or ByteRange(0, blob.size)
    if cut is not None:
        headers["Content-Range"] = f"bytes {part.start}-{part.end - 1}/{blob.size}"
    headers["Content-Length"] = str(part.end - part.start)
    pieces = iter(opened.read(blob, part.start, part.end)) if part.end > part.start else iter(())
    first = next(pieces, b"")  # Errors of the store are raised here.
    return StreamingResponse(_all(first, pieces), status, headers, media_type="application/octet-stream")


def _with_length(response: Response, size: int) -> Response:
    response.headers["Content-Length"] = str(size)
    return response


def _all(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    if first:
        yield first
    yield from rest


def etag(tag: str) -> str:
    """Returns the tag of a content as stores write it."""
    return f'"0x{hashlib.sha256(tag.encode()).hexdigest()[:16].upper()}"'


def _headers(tag: str) -> dict[str, str]:
    return {"x-ms-version": sas.VERSION, "ETag": etag(tag), "Last-Modified": LAST_MODIFIED, "Cache-Control": "no-store"}


def _list(place: BlobPlace, query: Mapping[str, str]) -> Response:
    prefix, delimiter, marker = query.get("prefix", ""), query.get("delimiter", ""), query.get("marker", "")
    if delimiter not in ("", "/"):
        raise BlobError(400, "InvalidQueryParameterValue", "The delimiter is `/`, or there is none.")
    if "\0" in prefix or any(part in (".", "..") for part in prefix.split("/")):
        raise BlobError(400, "InvalidQueryParameterValue", "The prefix has `.` or `..` in it.")
    most = query.get("maxresults", "") or str(MAX_LISTED)
    if not (most.isascii() and most.isdigit()) or not 0 < int(most) < 1 << 31:
        raise BlobError(400, "OutOfRangeQueryParameterValue", "`maxresults` is a number above 0.")
    listed = [one for one in place.open().below(prefix, is_deep=not delimiter) if _sort_key(one) > marker]
    page = listed[: min(int(most), MAX_LISTED)]
    is_more = len(listed) > len(page)
    rows = "".join(map(_row, page))
    text = (
        '<?xml version="1.0" encoding="utf-8"?>'
        f'<EnumerationResults ServiceEndpoint="/" ContainerName="{escape(place.container)}">'
        f"<Prefix>{_text(prefix)}</Prefix><MaxResults>{len(page)}</MaxResults><Blobs>{rows}</Blobs>"
        f"<NextMarker>{_text(_sort_key(page[-1])) if is_more else ''}</NextMarker></EnumerationResults>"
    )
    return Response(text, headers={"x-ms-version": sas.VERSION}, media_type="application/xml")


def _sort_key(blob: Blob) -> str:
    return f"{blob.name}/" if blob.is_folder else blob.name


def _row(blob: Blob) -> str:
    if blob.is_folder:
        return f"<BlobPrefix><Name>{_text(blob.name)}/</Name></BlobPrefix>"
    return (
        f"<Blob><Name>{_text(blob.name)}</Name><Properties><Last-Modified>{LAST_MODIFIED}</Last-Modified>"
        f"<Etag>{escape(etag(blob.tag))}</Etag><Content-Length>{blob.size}</Content-Length>"
        "<Content-Type>application/octet-stream</Content-Type><BlobType>BlockBlob</BlobType></Properties>"
        "<Metadata /></Blob>"
    )


_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")


def _text(text: str) -> str:
    """Returns a text that XML can have; characters that it can't are replaced."""
    return escape(_UNFIT.sub("\ufffd", text), {"\r": "&#13;", "\n": "&#10;", "\t": "&#9;"})


# --- writing ---------------------------------------------------------------------------------------------------------
def _length(request: Request) -> int:
    given = request.headers.get("content-length", "")
    if not (given.isascii() and given.isdigit() and len(given) < 19):
        raise BlobError(411, "MissingContentLengthHeader", "The request needs the header Content-Length.")
    return int(given)


async def _put(request: Request, place: BlobPlace) -> Response:
    size, kind = _length(request), request.headers.get("x-ms-blob-type", "")
    if kind != "BlockBlob":
        raise BlobError(400, "InvalidHeaderValue", "Blobs here are block blobs: `x-ms-blob-type: BlockBlob`.")
    pieces, metadata = BodyReader(request.stream()), _metadata(request.headers)

    def write() -> Response:
        _require_absent(place, request)
        return _write(place, pieces, size, metadata)

    return await _away(write)


def _require_absent(place: BlobPlace, request: Request) -> None:
    if request.headers.get("if-none-match", "") != "*":
        return
    with contextlib.suppress(NotFoundError):
        place.open().find(place.name)
        raise BlobError(409, "BlobAlreadyExists", "The blob exists already.")


def _write(place: BlobPlace, pieces: Iterable[bytes], size: int, metadata: dict[str, str]) -> Response:
    opened = place.open()
    opened.write(place.name, _counted(pieces, size), size)
    blob = opened.find(place.name)
    if metadata:
        place.catalog.set_metadata(place.key, {"tag": blob.tag, "metadata": metadata})
    return Response(status_code=201, headers={**_headers(blob.tag), "x-ms-request-server-encrypted": "true"})


def _counted(pieces: Iterable[bytes], size: int) -> Iterator[bytes]:
    seen = 0
    for piece in pieces:
        seen += len(piece)
        if seen > size:
            break
        yield piece
    if seen != size:
        raise BlobError(400, "InvalidInput", f"The body has {seen:,} bytes, and {size:,} were announced.")


def _block(place: BlobPlace, block: str) -> Path:
    return place.blocks / hashlib.sha256(block.encode()).hexdigest()


async def _put_block(request: Request, place: BlobPlace) -> Response:
    block, size = request.query_params.get("blockid", ""), _length(request)
    if not block or len(block) > 256:
        raise BlobError(400, "InvalidQueryParameterValue", "A block needs its `blockid`.")
    if size > MAX_BLOCK:
        raise BlobError(413, "RequestBodyTooLarge", f"A block has at most {MAX_BLOCK:,} bytes.")
    pieces = BodyReader(request.stream())

    def write() -> None:
        place.open()
        _make_blocks_folder(place)
        require_room(place.folder)
        target = _block(place, block)
        aside = target.with_name(f".{target.name[:16]}.{os.urandom(6).hex()}")
        try:
            with aside.open("wb") as file:
                for piece in _counted(pieces, size):
                    file.write(piece)
            aside.replace(target)
        except BaseException:
            aside.unlink(missing_ok=True)
            raise

    await _away(write)
    return Response(status_code=201, headers={"x-ms-version": sas.VERSION, "x-ms-request-server-encrypted": "true"})


def _make_blocks_folder(place: BlobPlace) -> None:
    if place.blocks.is_dir():
        return
    with contextlib.suppress(OSError):  # Blocks whose list never came.
        for old in place.blocks.parent.iterdir():
            if old.stat().st_mtime < time.time() - BLOCK_LIFE_S:
                shutil.rmtree(old, ignore_errors=True)
    place.blocks.mkdir(0o700, parents=True, exist_ok=True)


def _put_list(place: BlobPlace, body: bytes, metadata: dict[str, str], request: Request) -> Response:
    blocks = [_block(place, one) for one in block_ids(body)]
    sizes: list[int] = []
    for one in blocks:
        if not one.is_file():
            raise BlobError(400, "InvalidBlockList", "The list names a block that wasn't sent.")
        sizes.append(one.stat().st_size)
    _require_absent(place, request)
    answered = _write(place, _joined(blocks), sum(sizes), metadata)
    shutil.rmtree(place.blocks, ignore_errors=True)
    return answered


def _joined(blocks: Sequence[Path]) -> Iterator[bytes]:
    for one in blocks:
        yield from file_pieces(one, 0, one.stat().st_size)


def block_ids(body: bytes) -> list[str]:
    """Returns the ids in a list of blocks, in order. Raises BlobError."""
    try:
        if b"<!DOCTYPE" in body[:4096].upper() or b"<!ENTITY" in body.upper():
            raise ET.ParseError("declarations")
        root = ET.fromstring(body)  # noqa: S314 - no entities: they were refused above
    except (ET.ParseError, ValueError, LookupError):
        raise BlobError(400, "InvalidXmlDocument", "The list of blocks isn't XML.") from None
    if root.tag != "BlockList" or any(one.tag not in ("Latest", "Uncommitted", "Committed") for one in root):
        raise BlobError(400, "InvalidXmlDocument", "The body isn't a list of blocks.")
    ids = [one.text or "" for one in root]
    if len(ids) > MAX_BLOCKS:
        raise BlobError(400, "BlockListTooLong", f"A blob has at most {MAX_BLOCKS:,} blocks.")
    return ids


# --- metadata --------------------------------------------------------------------------------------------------------
def _metadata(headers: Mapping[str, str]) -> dict[str, str]:
    return {key[len(_META) :]: value[:1000] for key, value in headers.items() if key.startswith(_META)}


def _shown_metadata(place: BlobPlace, blob: Blob) -> dict[str, str]:
    """Returns the metadata of a blob as headers, if its content is still the one that they were set for."""
    if place.container == ARTIFACTS:
        return {}
    kept = place.catalog.metadata(place.key)
    if kept.get("tag") != blob.tag:
        return {}
    return {f"{_META}{key}": str(value) for key, value in kept["metadata"].items()}


def _put_metadata(place: BlobPlace, metadata: dict[str, str]) -> Response:
    blob = place.open().find(place.name)
    place.catalog.set_metadata(place.key, {"tag": blob.tag, "metadata": metadata})
    return Response(headers=_headers(blob.tag))
