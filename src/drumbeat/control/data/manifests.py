"""Folders in stores that drumbeat itself writes: readers get all of one, or are told that it isn't whole.

Before the first file a manifest is put there that says so, and after the last file the one that lists them. A folder
without a manifest is another program's, and read as it is.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from drumbeat.ports import DataAccess, Entry, Written
from drumbeat.protocol.errors import ConflictError, ForbiddenError, NotFoundError, RefusedError
from drumbeat.protocol.folder_layout import MANIFEST
from drumbeat.protocol.input_listing import Link, ListedFile, Listing

MAX_BYTES = 256 << 20

Files = Mapping[str, tuple[int, str]]
"""Path to (size, SHA-256)."""

_REWRITING = threading.Lock()
"""Held while the manifest of a folder that another writer made is read and written again."""


@dataclass(frozen=True)
class Manifest:
    """What a folder holds. by: who wrote it, for people. files: what it has."""

    by: str
    is_complete: bool
    files: Files = field(default_factory=dict[str, tuple[int, str]])

    def text(self) -> bytes:
        """As it is kept."""
        files = {path: {"size": size, "sha256": sha256} for path, (size, sha256) in sorted(self.files.items())}
        return json.dumps({"by": self.by, "complete": self.is_complete, "files": files}, indent=1).encode() + b"\n"

    @classmethod
    def of(cls, text: bytes) -> Manifest:
        """Raises ValueError, KeyError, TypeError for what isn't one."""
        document: dict[str, Any] = json.loads(text)
        files = {path: (int(one["size"]), str(one["sha256"])) for path, one in document["files"].items()}
        return cls(str(document["by"]), bool(document["complete"]), files)


def put(data: DataAccess, uri: str, manifest: Manifest) -> None:
    """Writes it into the folder, in place of the one that is there.

    Manifests of the folders around it no longer list what is different in this one.
    """
    for folder, below in _around(uri):
        _rewrite(data, folder, partial(_agreeing, start=f"{below}/", inner=manifest.files))
    _write(data, uri, manifest)


def _write(data: DataAccess, uri: str, manifest: Manifest) -> None:
    text = manifest.text()
    data.write(uri, MANIFEST, [text], len(text))


def find(data: DataAccess, uri: str) -> Manifest | None:
    """The manifest of a folder; None where there is none, or nothing that can be read as one."""
    place = f"{uri.rstrip('/')}/{MANIFEST}"
    try:
        listed = data.listing(place, is_file=True)
    except NotFoundError:
        return None
    if listed.size > MAX_BYTES:
        return None
    try:
        return Manifest.of(b"".join(data.read(place, listed.files[0])))
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        return None


def known(data: DataAccess, uri: str) -> Manifest | None:
    """The manifest of a folder without the files of which one of a folder around it says something else."""
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
    """Writes one file below an address; manifests of the folders that it is in, and that list it, have what it is now.

    They don't list it while it is written: after a write that is broken off, an upload of the folder sends it again.
    """
    around = _around(f"{uri.rstrip('/')}/{path}") if path.rsplit("/", 1)[-1] != MANIFEST else []
    listing = [(folder, below) for folder, below in around if _rewrite(data, folder, partial(_but, path=below))]
    written = data.write(uri, path, pieces, size)
    for folder, below in listing:
        _rewrite(data, folder, partial(_with, path=below, kept=(written.size, written.sha256)))
    return written


def _around(uri: str) -> list[tuple[str, str]]:
    """The folders that a place in a store is in, up to the whole store, each with the path from there."""
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
        return None  # Where a store shows none, no upload of that folder has read one either.


def _rewrite(data: DataAccess, uri: str, change: Callable[[Files], Files]) -> bool:
    """Writes the manifest of a folder with other files. Returns whether there is one, and its files became others."""
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
    """The files without those below a folder that are something else there."""
    return {
        path: one
        for path, one in files.items()
        if not path.startswith(start) or inner.get(path.removeprefix(start)) == one
    }


def remove_all(data: DataAccess, uri: str) -> None:
    """Takes away a folder that drumbeat wrote, or the one file: first the files, last the manifest that lists them."""
    manifest = find(data, uri)
    folder, _, name = uri.rpartition("/")
    if manifest is None:
        data.remove(folder, name)
        return
    for path in manifest.files:
        data.remove(uri, path)
    data.remove(uri, MANIFEST)


class Whole:
    """The `DataAccess` port over another one: manifests are heeded, and aren't among the files."""

    def __init__(self, data: DataAccess) -> None:
        self._data = data

    def listing(self, uri: str, *, is_file: bool) -> Listing:
        found = self._data.listing(uri, is_file=is_file)
        if not is_file and self._lacks(uri, found):  # Perhaps it was finished while it was listed.
            found = self._data.listing(uri, is_file=is_file)
            if lacks := self._lacks(uri, found):
                what = f"this folder isn't whole: {lacks} is in its manifest, and isn't there"
                fix = f"Write it again; or remove {MANIFEST} in it, if it is to be as it is now."
                raise ConflictError(what, where=uri, fix=fix)
        return found if is_file else replace(found, files=tuple(one for one in found.files if not _is_manifest(one)))

    def _lacks(self, uri: str, found: Listing) -> str:
        """The first file that a manifest in the folder has and the list doesn't, "" = none."""
        there = {one.path for one in found.files}
        for below in (one.path.removesuffix(MANIFEST) for one in found.files if _is_manifest(one)):
            folder = f"{uri.rstrip('/')}/{below}".rstrip("/")
            wanted = {f"{below}{path}" for path in self._files(folder) if path != MANIFEST}
            if not wanted <= there:
                return min(wanted - there)
        return ""

    def _files(self, folder: str) -> Iterable[str]:
        """What its manifest says that it holds. Raises ConflictError for one that isn't whole yet."""
        manifest = find(self._data, folder)
        if manifest and not manifest.is_complete:
            what = f"this folder isn't whole: {manifest.by} is writing it, or has left it half done"
            raise ConflictError(what, where=folder, fix="Wait until it is done, or write it again.")
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
