"""Downloads files of a job: resumes interrupted ones, writes whole files or none, and never outside the folder."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

import httpx

from drumbeat.client.connection import Connection, again, part
from drumbeat.client.partial_file_names import partial_path
from drumbeat.model.api.jobs import HOLES_HEADER
from drumbeat.model.errors import ConflictError, ForbiddenError, RefusedError, StorageError, UnreachableError
from drumbeat.model.sparse_files import append

PIECE = 1 << 20
BEGINNINGS = 5
"""How often a file that changes during its download is begun."""

BytesCallback = Callable[[int], None]
Holes = tuple[tuple[int, int], ...]
"""Start and end of each stretch of zeros in a file that isn't sent."""


def place_in(folder: Path, path: str) -> Path:
    """Returns the local path of a job's file. Raises ForbiddenError for one outside of the folder."""
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or "\0" in path:
        raise ForbiddenError("the server names a file outside of the job's folder", where=repr(path))
    place = folder.joinpath(*parts)
    if not place.parent.resolve().is_relative_to(folder.resolve()):
        raise ForbiddenError("a link here leads out of the folder that files are brought to", where=str(place))
    return place


def check_folder(folder: Path) -> None:
    """Raises RefusedError if a file is in the place of the folder or one of its parents."""
    taken = next((place for place in (folder, *folder.parents) if place.exists() and not place.is_dir()), None)
    if taken:
        raise RefusedError("this is a file, not a folder", where=str(taken), fix="Name a folder to bring the files to.")


@dataclass(frozen=True)
class RemoteFile:
    """One version of a file on the server."""

    address: str
    size: int
    etag: str
    holes: Holes = ()

    @classmethod
    def from_response(cls, address: str, response: httpx.Response) -> RemoteFile:
        """Returns the version that a response describes or sends."""
        holes = _holes(response.headers.get(HOLES_HEADER, ""))
        return cls(address, int(response.headers["content-length"]), response.headers["etag"], holes)

    def hole_at(self, offset: int) -> int:
        """Returns where the hole ends in which this offset lies; 0 = it lies in none."""
        return next((end for start, end in self.holes if start <= offset < end), 0)

    def data_end(self, offset: int) -> int:
        """Returns where the next hole behind this offset begins, or the file ends."""
        return min((start for start, _ in self.holes if start > offset), default=self.size)

    @property
    def version(self) -> str:
        """The same for the same content, in 12 hex digits."""
        return hashlib.sha256(self.etag.encode()).hexdigest()[:12]


def fetch(connection: Connection, name: str, path: str, to: Path, on_bytes: BytesCallback) -> None:
    """Downloads one file to `to`, as it was at one moment.

    A broken download resumes, unless the file changed in the meantime: then it restarts. on_bytes: takes a negative
    number for bytes that were discarded.
    """
    address = f"/jobs/{part(name)}/files/{'/'.join(map(part, path.split('/')))}"
    try:
        to.parent.mkdir(parents=True, exist_ok=True)
        _fetch_version(connection, address, to, on_bytes).replace(to)
    except OSError as error:
        raise StorageError(f"can't be written: {error.strerror or error}", where=str(to)) from None


def _fetch_version(connection: Connection, address: str, to: Path, on_bytes: BytesCallback) -> Path:
    """Downloads one version of the file, and returns its place."""
    for _ in range(BEGINNINGS - 1):
        with suppress(ConflictError):
            return _version(connection, address, to, on_bytes)
    return _version(connection, address, to, on_bytes)


def _version(connection: Connection, address: str, to: Path, on_bytes: BytesCallback) -> Path:
    """Where all of the version lies that is there now. Raises ConflictError, and leaves nothing, when it goes."""
    source = again(connection, lambda: _begin(connection, address, to, on_bytes))
    partial = partial_path(to, source.version)
    try:
        _complete(connection, source, partial, on_bytes)
    except ConflictError:
        on_bytes(-partial.stat().st_size)
        partial.unlink()
        raise
    return partial


def _begin(connection: Connection, address: str, to: Path, on_bytes: BytesCallback) -> RemoteFile:
    """Returns the current version. The same response has its content, unless an earlier run left a part of it here."""
    now = RemoteFile.from_response(address, connection.send("HEAD", address))
    if (half := partial_path(to, now.version)).exists():
        on_bytes(half.stat().st_size)
        return now
    with connection.streaming(address, headers={"Range": "bytes=0-"}) as response:
        source = RemoteFile.from_response(address, response)
        with _opened(partial_path(to, source.version)) as file:
            had = file.seek(0, os.SEEK_END)
            on_bytes(had)
            if not had and not source.holes:
                with suppress(httpx.TransportError):  # `_complete` resumes where this ended.
                    _pass_on(response, file, on_bytes)
    return source


def _opened(partial: Path) -> BinaryIO:
    return os.fdopen(os.open(partial, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666), "r+b")


def _complete(connection: Connection, source: RemoteFile, partial: Path, on_bytes: BytesCallback) -> None:
    with _opened(partial) as file:
        file.seek(0, os.SEEK_END)

        def rest() -> None:
            while (at := file.tell()) < source.size:
                if end := source.hole_at(at):
                    file.truncate(end)
                    file.seek(end)
                    on_bytes(end - at)
                else:
                    _append(connection, source, at, file, on_bytes)

        again(connection, rest)
        if file.tell() != source.size:
            what = f"the file has {source.size:,} bytes, but {file.tell():,} came"
            raise UnreachableError(what, where=source.address, fix="Try again: it may be written right now.")


def _append(connection: Connection, source: RemoteFile, start: int, file: BinaryIO, on_bytes: BytesCallback) -> None:
    """The rest of the file from `start`, up to its next hole."""
    headers = {"Range": f"bytes={start}-{source.data_end(start) - 1}", "If-Range": source.etag}
    with connection.streaming(source.address, headers=headers) as response:
        if response.status_code != 206:
            raise ConflictError("the file changed while it was brought", where=source.address, fix="Try again.")
        _pass_on(response, file, on_bytes)


def _pass_on(response: httpx.Response, file: BinaryIO, on_bytes: BytesCallback) -> None:
    for piece in response.iter_bytes(PIECE):
        append(file, piece)
        on_bytes(len(piece))


def _holes(header: str) -> Holes:
    """Reads `start-end,start-end`: both count from 0, and the byte at `end` is data again."""
    pairs = [one.partition("-") for one in header.split(",") if one]
    return tuple((int(start), int(end)) for start, _, end in pairs)
