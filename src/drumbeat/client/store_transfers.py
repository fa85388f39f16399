"""Copies folders into and out of stores through the server: several files at a time, resuming interrupted copies.

Into a store: what the folder's manifest has with the same size and SHA-256 isn't sent again. Out of it: what lies here
with the right content stays, and half of a file is resumed.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from drumbeat.client import partial_file_names
from drumbeat.client.connection import LISTING_TIMEOUT, Connection, again
from drumbeat.client.job_downloads import check_folder, place_in
from drumbeat.client.upload_files import SourceFile
from drumbeat.model import folder_layout
from drumbeat.model.api.data import ListingView
from drumbeat.model.errors import ConflictError, NotFoundError, StorageError, UnreachableError
from drumbeat.model.input_listing import ListedFile
from drumbeat.model.manifest_pace import ManifestPace
from drumbeat.model.sparse_files import append

AT_ONCE = 4
"""Files that are on their way at a time."""
PIECE = 1 << 20

BytesCallback = Callable[[int], None]


@dataclass
class ConnectionPool:
    """A connection for each thread."""

    connection: Connection
    _own: threading.local = field(default_factory=threading.local)
    _open: list[Connection] = field(default_factory=list[Connection])

    def mine(self) -> Connection:
        """Returns the connection of the calling thread."""
        if not hasattr(self._own, "line"):
            self._own.line = self.connection.another()
            self._open.append(self._own.line)
        return self._own.line

    def close(self) -> None:
        """Closes all of them."""
        for line in self._open:
            line.close()


# --- into a store ---------------------------------------------------------------------------------------------------
def hashed(sources: Sequence[SourceFile]) -> list[SourceFile]:
    """Returns the files with their SHA-256."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        digests = list(pool.map(_sha256, [one.place for one in sources]))
    return [replace(one, sha256=digest) for one, digest in zip(sources, digests, strict=True)]


def _sha256(place: Path) -> str:
    try:
        with place.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise StorageError(f"can't be read: {error.strerror}", where=str(place)) from None


def content_key(sources: Sequence[SourceFile]) -> str:
    """Returns a key for the content and paths of files, which any change changes."""
    return folder_layout.content_key((one.path, one.size, one.sha256) for one in sources)


@dataclass
class Upload:
    """An upload of files to a folder of a store. by: the sender, for messages.

    was_whole: whether a manifest there said, before the last of them was sent, that they were all in place.
    """

    connection: Connection
    uri: str
    sources: Sequence[SourceFile]
    by: str
    on_bytes: BytesCallback
    is_folder: bool = True
    was_whole: bool = False
    _kept: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    _lost: set[str] = field(default_factory=set[str])
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _pace: ManifestPace = field(default_factory=ManifestPace)

    def run(self) -> Transfer:
        """Uploads the files, and completes the manifest."""
        manifest = self._manifest() if self.is_folder else {}
        self.was_whole = bool(manifest.get("complete"))
        before = self._still_there(manifest.get("files", {}))
        self._lost = {path for path in manifest.get("files", {}) if path not in before}
        wanted = [one for one in self.sources if before.get(one.path) != _manifest_entry(one)]
        size = sum(one.size for one in self.sources)
        self._kept = before
        self.on_bytes(size - sum(one.size for one in wanted))
        done = Transfer(self.uri, len(self.sources), size, len(wanted))
        # A manifest that lists what isn't there any more is written again, though nothing has to be sent.
        if not wanted and (not self.is_folder or (self.was_whole and before == manifest["files"])):
            return done
        # Files that are about to be replaced must not be listed any more.
        self._kept = {path: kept for path, kept in before.items() if path not in {one.path for one in wanted}}
        self._tell(is_complete=False)
        lines = ConnectionPool(self.connection)
        try:
            each(wanted, lambda one: self._send(lines.mine(), one))
        finally:
            lines.close()
        self._look(self.connection)
        self._tell(is_complete=True)
        return done

    def _manifest(self, line: Connection | None = None) -> dict[str, Any]:
        try:
            return (line or self.connection).call("GET", "/storage/manifest", params={"uri": self.uri})
        except NotFoundError:
            return {}

    def _look(self, line: Connection) -> None:
        """Counts what other clients have sent meanwhile to a folder that is named after its content: they send the
        same.
        """
        if not (self.is_folder and folder_layout.upload_key(self.uri)):
            return
        manifest = self._manifest(line)
        others = {path: kept for path, kept in manifest.get("files", {}).items() if path not in self._lost}
        self.was_whole = self.was_whole or bool(manifest.get("complete"))
        with self._lock:
            self._kept |= {
                one.path: _manifest_entry(one) for one in self.sources if others.get(one.path) == _manifest_entry(one)
            }

    def _still_there(self, kept: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """Returns the entries of the manifest that the folder itself confirms."""
        if not kept:
            return {}
        sizes: dict[str, int] = {}
        with suppress(NotFoundError):
            params = {"uri": self.uri, "is_partial": True}
            listing = self.connection.call("GET", "/storage/listing", params=params, timeout=LISTING_TIMEOUT)
            sizes = {one["path"]: one["size"] for one in listing["files"]}
        return {path: one for path, one in kept.items() if sizes.get(path) == one["size"]}

    def _send(self, line: Connection, source: SourceFile) -> None:
        with self._lock:
            is_there = source.path in self._kept
        if is_there:
            self.on_bytes(source.size)
            return
        params = {"uri": self.uri, "path": source.path, "is_listed": str(self.is_folder).lower()}
        response = again(
            line, lambda: line.upload("/storage/file", lambda: self._pieces(source), source.size, params=params)
        )
        if response.json()["sha256"] != source.sha256:
            what = "this file changed while it was sent"
            raise ConflictError(what, where=str(source.place), fix="Send it again.")
        with self._lock:
            self._kept[source.path] = _manifest_entry(source)
            is_time = self._pace.take_turn()
        if is_time:
            with self._pace.measured():
                self._look(line)
                self._tell(is_complete=False, line=line)

    def _pieces(self, source: SourceFile) -> Iterator[bytes]:
        left = source.size
        with source.place.open("rb") as file:
            while left and (piece := file.read(min(PIECE, left))):
                left -= len(piece)
                yield piece
                self.on_bytes(len(piece))

    def _tell(self, *, is_complete: bool, line: Connection | None = None) -> None:
        if not self.is_folder:
            return
        with self._lock:
            files = dict(self._kept)
        body = {"uri": self.uri, "by": self.by, "complete": is_complete, "files": files}
        (line or self.connection).call("POST", "/storage/manifest", json=body)


def _manifest_entry(source: SourceFile) -> dict[str, Any]:
    return {"size": source.size, "sha256": source.sha256}


# --- out of a store -------------------------------------------------------------------------------------------------
@dataclass
class Download:
    """A download of files from a store to a local folder."""

    connection: Connection
    listing: ListingView
    to: Path
    on_bytes: BytesCallback

    def run(self) -> Transfer:
        """Downloads the files, each whole."""
        check_folder(self.to)
        lines = ConnectionPool(self.connection)
        moved: list[str] = []
        try:
            each(self.listing.files, lambda one: self._fetch(lines.mine(), one, moved))
        finally:
            lines.close()
        partial_file_names.clear(place_in(self.to, file.path) for file in self.listing.files)
        return Transfer(self.listing.uri, len(self.listing.files), self.listing.size, len(moved))

    def _fetch(self, line: Connection, file: ListedFile, moved: list[str]) -> None:
        place = place_in(self.to, file.path)
        if _is_same(place, file):
            self.on_bytes(file.size)
            return
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            partial = partial_file_names.partial_path(place, file.key[:12])
            self._complete(line, file, partial)
            partial.replace(place)
        except OSError as error:
            raise StorageError(f"can't be written: {error.strerror or error}", where=str(place)) from None
        moved.append(file.path)

    def _complete(self, line: Connection, file: ListedFile, partial: Path) -> None:
        descriptor = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        with os.fdopen(descriptor, "r+b") as target:
            if target.seek(0, os.SEEK_END) > file.size:
                target.truncate(0)
                target.seek(0)
            self.on_bytes(target.tell())
            if target.tell() < file.size:
                again(line, lambda: self._append(line, file, target))
            if target.tell() != file.size:
                what = f"the file has {file.size:,} bytes, but {target.tell():,} came"
                raise UnreachableError(what, where=file.path, fix="Try again.")
        if file.sha256 and _sha256(partial) != file.sha256:
            partial.unlink()
            raise ConflictError("what came isn't what was listed", where=file.path, fix="Try again.")

    def _append(self, line: Connection, file: ListedFile, target: Any) -> None:
        """Appends the rest of the file; nothing if the connection was lost after the last byte."""
        if target.tell() >= file.size:
            return
        headers = {"Range": f"bytes={target.tell()}-{file.size - 1}"}
        asked: dict[str, Any] = {"params": {"uri": self.listing.uri}, "json": asdict(file), "headers": headers}
        with line.streaming("/storage/file", method="POST", **asked) as response:
            for piece in response.iter_bytes(PIECE):
                append(target, piece)
                self.on_bytes(len(piece))


def _is_same(place: Path, file: ListedFile) -> bool:
    """Whether the same file is here already; False without a SHA-256 to compare."""
    return bool(file.sha256) and place.is_file() and place.stat().st_size == file.size and _sha256(place) == file.sha256


# --- both -----------------------------------------------------------------------------------------------------------
def each(items: Sequence[Any], do: Callable[[Any], None]) -> None:
    """Calls `do` for several items at a time; raises the first error when those under way have ended."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        running: list[Future[None]] = [pool.submit(do, one) for one in items]
        done, left = wait(running, return_when=FIRST_EXCEPTION)
        for one in left:
            one.cancel()
        for one in done:
            one.result()


@dataclass(frozen=True)
class Transfer:
    """The result of an upload or download. moved: the number of files that weren't there already."""

    uri: str
    files: int
    size: int
    moved: int
