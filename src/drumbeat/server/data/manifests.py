"""Manifests of folders that drumbeat writes to stores: readers get a complete folder or an error.

A manifest that marks the folder as incomplete is written before the first file, and one that lists all files after the
last. A folder without a manifest was written by another program, and is read as it is.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from drumbeat.model.api.data import Written
from drumbeat.model.errors import ConflictError, ForbiddenError, NotFoundError, RefusedError
from drumbeat.model.folder_layout import MANIFEST, content_key, upload_key
from drumbeat.model.input_listing import Link, ListedFile, Listing
from drumbeat.ports.data import DataAccess, Entry

MAX_BYTES = 256 << 20

Files = Mapping[str, tuple[int, str]]
"""Path to (size, SHA-256)."""

_REWRITING = threading.Lock()
"""Held while another writer's manifest is read and rewritten."""


@dataclass(frozen=True)
class Manifest:
    """The content of a folder. by: its writer, for messages. also: other writers of the same content."""

    by: str
    is_complete: bool
    files: Files = field(default_factory=dict[str, tuple[int, str]])
    also: tuple[str, ...] = ()

    def text(self) -> bytes:
        """Returns its JSON."""
        files = {path: {"size": size, "sha256": sha256} for path, (size, sha256) in sorted(self.files.items())}
        head = {"by": self.by, **({"also": self.also} if self.also else {}), "complete": self.is_complete}
        return json.dumps({**head, "files": files}, indent=1).encode() + b"\n"

    @classmethod
    def parse(cls, text: bytes) -> Manifest:
        """Parses a manifest. Raises ValueError, KeyError, TypeError."""
        document: dict[str, Any] = json.loads(text)
        files = {path: (int(one["size"]), str(one["sha256"])) for path, one in document["files"].items()}
        also = tuple(str(one) for one in document.get("also", ()))
        return cls(str(document["by"]), bool(document["complete"]), files, also)


def put(data: DataAccess, uri: str, manifest: Manifest) -> None:
    """Writes a manifest into a folder, or replaces the one there.

    Files that differ in it are removed from the manifests of the folders around it. In a folder that is named by its
    content, a complete manifest stays, even if others upload the same content.
    """
    for folder, below in _around(uri):
        _rewrite(data, folder, partial(_agreeing, start=f"{below}/", inner=manifest.files))
    key = upload_key(uri)
    if not key:
        _write(data, uri, manifest)
        return
    with _REWRITING:
        earlier = find(data, uri)
        _write(data, uri, _joint(earlier, manifest, key) if earlier else manifest)


def _joint(earlier: Manifest, new: Manifest, key: str) -> Manifest:
    """Returns the manifest of a folder to which several upload the same content. key: the name of this content."""
    manifest = earlier if earlier.is_complete and _is_content(earlier.files, key) else new
    writers = dict.fromkeys((earlier.by, *earlier.also, new.by))
    return replace(manifest, also=tuple(one for one in writers if one != manifest.by))


def _is_content(files: Files, key: str) -> bool:
    """Whether these files are the content that a folder's name says."""
    return content_key((path, size, sha256) for path, (size, sha256) in files.items()) == key


def is_shared(data: DataAccess, uri: str) -> bool:
    """Whether a folder is incomplete, or has several writers."""
    manifest = find(data, uri)
    return manifest is not None and (not manifest.is_complete or bool(manifest.also))


def _write(data: DataAccess, uri: str, manifest: Manifest) -> None:
    text = manifest.text()
    data.write(uri, MANIFEST, [text], len(text))


def find(data: DataAccess, uri: str) -> Manifest | None:
    """Returns the manifest of a folder; None if there is none, or if it can't be parsed."""
    place = f"{uri.rstrip('/')}/{MANIFEST}"
    try:
        listed = data.listing(place, is_file=True)
    except NotFoundError:
        return None
    if listed.size > MAX_BYTES:
        return None
    try:
        return Manifest.parse(b"".join(data.read(place, listed.files[0])))
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        return None


def read_current(data: DataAccess, uri: str) -> Manifest | None:
    """Returns the manifest of a folder without the files that the manifest of a folder around it contradicts."""
    manifest = find(data, uri)
    if manifest is None:
        return None
    files = manifest.files
    for folder, below in _around(uri):
        if outer := _shown(data, folder):
            outer_files = outer.files
            files = {path: one for path, one in files.items() if outer_files.get(f"{below}/{path}", one) == one}
    return replace(manifest, files=files)


def replace_file(data: DataAccess, uri: str, path: str, pieces: Iterable[bytes], size: int) -> Written:
    """Writes one file below a URI, and updates it in the manifests of its folders that list it.

    They don't list it during the write, so that after an interrupted write an upload of the folder sends it again.
    """
    around = _around(f"{uri.rstrip('/')}/{path}") if path.rsplit("/", 1)[-1] != MANIFEST else []
    listing = [(folder, below) for folder, below in around if _rewrite(data, folder, partial(_but, path=below))]
    written = _write_once(data, uri, path, pieces, size) if upload_key(uri) else data.write(uri, path, pieces, size)
    for folder, below in listing:
        _rewrite(data, folder, partial(_with, path=below, kept=(written.size, written.sha256)))
    return written


class _PresentError(ConflictError):
    """The store has this file already."""

    def __init__(self, written: Written) -> None:
        super().__init__("it exists already")
        self.written = written


def _write_once(data: DataAccess, uri: str, path: str, pieces: Iterable[bytes], size: int) -> Written:
    """Writes the one file of an upload. A file with the same content stays, so that it is unchanged for readers that
    have listed it.
    """

    def new_pieces() -> Iterator[bytes]:
        digest = hashlib.sha256()
        for piece in pieces:
            digest.update(piece)
            yield piece
        if content_key([(path, size, digest.hexdigest())]) == upload_key(uri):
            with suppress(NotFoundError):
                present = data.listing(f"{uri.rstrip('/')}/{path}", is_file=True).files[0]
                if present.size == size:
                    raise _PresentError(Written(path, size, digest.hexdigest(), present.tag))

    try:
        return data.write(uri, path, new_pieces(), size)
    except _PresentError as error:
        return error.written


def _around(uri: str) -> list[tuple[str, str]]:
    """Returns the folders around a place up to the root of its store, each with the path from there."""
    scheme, _, rest = uri.rstrip("/").partition("://")
    store, between, inner = rest.partition("/paths/" if scheme == "azureml" else "/")
    parts = inner.split("/")
    start = f"{scheme}://{store}{between}"
    cuts = reversed(range(len(parts))) if inner else ()
    return [((start + "/".join(parts[:cut])).rstrip("/"), "/".join(parts[cut:])) for cut in cuts]


def _shown(data: DataAccess, uri: str) -> Manifest | None:
    try:
        return find(data, uri)
    except (ForbiddenError, RefusedError):
        return None  # If the store doesn't let us read it, no upload of that folder has read it either.


def _rewrite(data: DataAccess, uri: str, change: Callable[[Files], Files]) -> bool:
    """Rewrites the manifest of a folder with other files. Returns whether there is one, and its files changed."""
    manifest = _shown(data, uri)
    if manifest is None or change(manifest.files) == manifest.files:
        return False
    with _REWRITING:
        if manifest := find(data, uri):
            _write(data, uri, replace(manifest, files=change(manifest.files)))
    return True


def _but(files: Files, path: str) -> Files:
    return {name: one for name, one in files.items() if name != path}


def _with(files: Files, path: str, kept: tuple[int, str]) -> Files:
    return {**files, path: kept}


def _agreeing(files: Files, start: str, inner: Files) -> Files:
    """Returns the files without those below a folder that differ there."""
    return {
        path: one
        for path, one in files.items()
        if not path.startswith(start) or inner.get(path.removeprefix(start)) == one
    }


def remove_all(data: DataAccess, uri: str) -> None:
    """Removes a folder that drumbeat wrote, or one file: first the files, then the manifest that lists them."""
    manifest = find(data, uri)
    folder, _, name = uri.rpartition("/")
    if manifest is None:
        data.remove(folder, name)
        return
    for path in manifest.files:
        data.remove(uri, path)
    data.remove(uri, MANIFEST)


class ManifestDataAccess:
    """Reads data through another `DataAccess`, checks folders against their manifests, and hides the manifests."""

    def __init__(self, data: DataAccess) -> None:
        self._data = data

    def listing(self, uri: str, *, is_file: bool) -> Listing:
        listed = self._data.listing(uri, is_file=is_file)
        if not is_file and self._lacks(uri, listed):  # It may have been completed while it was being listed.
            listed = self._data.listing(uri, is_file=is_file)
            if lacks := self._lacks(uri, listed):
                what = f"this folder is incomplete: {lacks} is in its manifest but doesn't exist"
                fix = f"Write it again; or remove {MANIFEST} from it to use it as it is."
                raise ConflictError(what, where=uri, fix=fix)
        if is_file:
            return listed
        files = tuple(one for one in listed.files if not _is_manifest(one))
        return replace(listed, files=self._by_content(uri, files))

    def _by_content(self, uri: str, files: tuple[ListedFile, ...]) -> tuple[ListedFile, ...]:
        """Returns the files of an upload as in its manifest, which doesn't change if they are uploaded again."""
        key = upload_key(uri)
        manifest = find(self._data, uri) if key else None
        if manifest is None or not _is_content(manifest.files, key):
            return files
        return tuple(_summed(one, *manifest.files.get(one.path, (-1, ""))) for one in files)

    def _lacks(self, uri: str, listed: Listing) -> str:
        """Returns the first file that is in a manifest but not in the listing, "" = none."""
        paths = {one.path for one in listed.files}
        for below in (one.path.removesuffix(MANIFEST) for one in listed.files if _is_manifest(one)):
            folder = f"{uri.rstrip('/')}/{below}".rstrip("/")
            wanted = {f"{below}{path}" for path in self._files(folder) if path != MANIFEST}
            if not wanted <= paths:
                return min(wanted - paths)
        return ""

    def _files(self, folder: str) -> Iterable[str]:
        """Returns the files in a folder's manifest. Raises ConflictError if the folder is incomplete."""
        manifest = find(self._data, folder)
        if manifest and not manifest.is_complete:
            writers = " and ".join((manifest.by, *manifest.also))
            what = f"this folder is incomplete: {writers} {'have' if manifest.also else 'has'} not finished writing it"
            raise ConflictError(what, where=folder, fix="Wait until it is complete, or write it again.")
        return manifest.files if manifest else ()

    def links(self, uri: str, files: Sequence[ListedFile], lifetime_s: float) -> list[Link | None]:
        return self._data.links(uri, files, lifetime_s)

    def folder(self, uri: str) -> str:
        return self._data.folder(uri)

    def read(self, uri: str, file: ListedFile, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        return self._data.read(uri, file, offset, length)

    def write(self, uri: str, path: str, pieces: Iterable[bytes], size: int) -> Written:
        return self._data.write(uri, path, pieces, size)

    def write_link(self, uri: str, lifetime_s: float) -> Link:
        return self._data.write_link(uri, lifetime_s)

    def entries(self, uri: str) -> Sequence[Entry]:
        return self._data.entries(uri)

    def remove(self, uri: str, path: str) -> None:
        self._data.remove(uri, path)


def _is_manifest(file: ListedFile) -> bool:
    return file.path.rsplit("/", 1)[-1] == MANIFEST


def _summed(file: ListedFile, size: int, sha256: str) -> ListedFile:
    return replace(file, key=sha256, sha256=sha256, tag="") if file.size == size else file
