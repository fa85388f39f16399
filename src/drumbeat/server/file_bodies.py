"""Files as bodies of requests and responses: received in pieces, sent completely or as one range."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anyio import CapacityLimiter, from_thread
from fastapi import Response
from starlette.responses import StreamingResponse

from drumbeat.model.api.jobs import HOLES_HEADER
from drumbeat.model.errors import RefusedError
from drumbeat.model.sparse_files import large_holes
from drumbeat.server import errors

PIECE = 1 << 20
BINARY = {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}
RANGE_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: BINARY,
    206: BINARY,
    416: {"description": "The range begins after the end."},
}
UPLOADS = CapacityLimiter(8)
"""Threads for uploads, which are separate because each is held as long as the sender takes."""


class BodyReader:
    """Reads a request's body from a thread, piece by piece on demand."""

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


@dataclass(frozen=True)
class ByteRange:
    """Bytes `start` up to but not including `end`."""

    start: int
    end: int

    def is_beyond(self, size: int) -> bool:
        """Whether the range begins after the end. Never for an empty file."""
        return self.start >= size and not (self.start == 0 and size == 0)


@dataclass(frozen=True)
class ServedFile:
    """A file with its size at the time of the request."""

    path: Path
    size: int
    etag: str
    is_sparse: bool = False

    def response(self, cut: ByteRange, *, is_part: bool, has_body: bool) -> Response:
        """Returns a response with the file or a part of it."""
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

    def pieces(self, cut: ByteRange) -> Iterator[bytes]:
        """Yields the bytes of a part."""
        with self.path.open("rb") as file:
            file.seek(cut.start)
            left = cut.end - cut.start
            while left and (piece := file.read(min(left, PIECE // 4))):
                left -= len(piece)
                yield piece


RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)


def parse_range(wanted: str, size: int) -> ByteRange | None:
    """Parses a `Range` header.

    Returns None for several or invalid ranges; then the whole file is sent, as RFC 9110 allows.
    """
    match = RANGE.fullmatch(wanted.strip())
    if match is None or match.group(0) == "bytes=-":
        return None
    first, last = match.groups()
    if not first:
        return ByteRange(max(0, size - int(last)), size)
    end = min(int(last) + 1, size) if last else size
    return ByteRange(int(first), end) if int(first) < end or int(first) >= size else None


def range_refusal(wanted: str, size: int) -> Response:
    """Returns the response to a range beyond the end of a file of that size."""
    error = RefusedError("the range begins after the file's end", where=wanted)
    return errors.response(error, 416, {"Content-Range": f"bytes */{size}"})
