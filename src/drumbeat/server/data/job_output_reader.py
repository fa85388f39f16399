"""Reads data, including the outputs of jobs: `azureml://jobs/<job>/outputs/<output>/paths/<path>`.

Outputs are files of the server; other URIs are passed on to the stores.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from drumbeat.jobfile.data.paths import JobOutputReference, reference_to
from drumbeat.model.api.data import Written
from drumbeat.model.errors import ConflictError, NotFoundError, RefusedError, StorageError
from drumbeat.model.input_listing import Link, ListedFile, Listing, listing
from drumbeat.ports.data import DataAccess, Entry
from drumbeat.server.home_folder import FolderArtifacts
from drumbeat.server.home_folder.stored_files import StoredFile

PIECE = 1 << 20


class JobOutputReader:
    """The `DataAccess` of jobs' outputs. stores: reads all other URIs; None = this server can't read stores."""

    def __init__(self, artifacts: FolderArtifacts, stores: DataAccess | None) -> None:
        self._artifacts, self._stores = artifacts, stores

    def listing(self, uri: str, *, is_file: bool) -> Listing:
        place = _of_job(uri)
        if place is None:
            return self._rest().listing(uri, is_file=is_file)
        start = _folder(place)
        files = self._artifacts.files(place.job)
        if is_file:
            listed = [self._listed(place, one, one.path.rsplit("/", 1)[-1]) for one in files if one.path == start]
        else:
            inside = (one for one in files if one.path.startswith(f"{start}/"))
            listed = [self._listed(place, one, one.path[len(start) + 1 :]) for one in inside]
        if not listed:
            kind = "file" if is_file else "folder"
            raise NotFoundError(f"job {place.job} has no such {kind} in its outputs", where=uri)
        return listing(listed, is_file=is_file)

    def links(self, uri: str, files: Sequence[ListedFile], lifetime_s: float) -> list[Link | None]:
        return [None] * len(files) if _of_job(uri) else self._rest().links(uri, files, lifetime_s)

    def folder(self, uri: str) -> str:
        place = _of_job(uri)
        return self._own_folder(place) if place else self._rest().folder(uri)

    def _own_folder(self, place: JobOutputReference) -> str:
        """Returns the path of an output on the server's machine: a file, or the folder of its files."""
        start = _folder(place)
        for one in self._artifacts.files(place.job):
            if one.path == start:
                return str(self._artifacts.open_file(place.job, one.path))
            if one.path.startswith(f"{start}/"):
                return str(self._artifacts.open_file(place.job, one.path)).removesuffix(one.path[len(start) :])
        return ""

    def read(self, uri: str, file: ListedFile, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        place = _of_job(uri)
        if place is None:
            return self._rest().read(uri, file, offset, length)
        return self._read(place, file, offset, length)

    def write(self, uri: str, path: str, pieces: Iterable[bytes], size: int) -> Written:
        _require_store(uri)
        return self._rest().write(uri, path, pieces, size)

    def write_link(self, uri: str, lifetime_s: float) -> Link:
        _require_store(uri)
        return self._rest().write_link(uri, lifetime_s)

    def entries(self, uri: str) -> Sequence[Entry]:
        place = _of_job(uri)
        if place is None:
            return self._rest().entries(uri)
        below = f"{_folder(place)}/"
        inside = [
            (one.path[len(below) :], one.size) for one in self._artifacts.files(place.job) if one.path.startswith(below)
        ]
        if not inside:
            raise NotFoundError(f"job {place.job} has no such folder in its outputs", where=uri)
        folders = sorted({path.partition("/")[0] for path, _ in inside if "/" in path})
        files = [Entry(path, size) for path, size in inside if "/" not in path]
        return [*(Entry(name, is_folder=True) for name in folders), *files]

    def remove(self, uri: str, path: str) -> None:
        _require_store(uri)
        self._rest().remove(uri, path)

    # --- inside -----------------------------------------------------------------------------------------------
    def _rest(self) -> DataAccess:
        if self._stores is None:
            raise RefusedError("this server can't read stores", fix="Install the extra `data` where it runs.")
        return self._stores

    def _listed(self, place: JobOutputReference, one: StoredFile, path: str) -> ListedFile:
        """Lists a job's file with its SHA-256, or else with its version on the disk."""
        alone = one.path == _folder(place)
        file = self._artifacts.open_file(place.job, one.path)
        tag = _time(file, one.path)  # Tells a node on this machine that it sees the same file.
        if one.sha256:
            return ListedFile(path, one.size, one.sha256, one.sha256, tag, alone=alone)
        return ListedFile(path, one.size, _version(place.job, one.path, file), tag=tag, alone=alone)

    def _read(self, place: JobOutputReference, file: ListedFile, offset: int, length: int | None) -> Iterator[bytes]:
        path = _folder(place) if file.alone else f"{_folder(place)}/{file.path}"
        stored = self._artifacts.open_file(place.job, path)
        # An output doesn't change once its job has ended, and its readers know its SHA-256.
        if _size(stored, path) != file.size or (not file.sha256 and _version(place.job, path, stored) != file.key):
            raise ConflictError(f"{path} of job {place.job} has changed since it was listed")
        left = file.size - offset if length is None else min(length, file.size - offset)
        return _pieces(stored, offset, max(0, left))


def is_of_job(uri: str) -> bool:
    """Whether a URI names an output of a job."""
    return uri.startswith("azureml:") and isinstance(reference_to(uri), JobOutputReference)


def _of_job(uri: str) -> JobOutputReference | None:
    reference = reference_to(uri) if uri.startswith("azureml:") else None
    return reference if isinstance(reference, JobOutputReference) else None


def _folder(place: JobOutputReference) -> str:
    return "/".join(part for part in ("outputs", place.output, place.path) if part)


def _require_store(uri: str) -> None:
    if is_of_job(uri):
        fix = "Name a datastore: azureml://datastores/NAME/paths/PATH"
        raise RefusedError("the outputs of jobs are read-only", where=uri, fix=fix)


def _version(job: str, path: str, place: Path) -> str:
    try:
        status = place.stat()
    except OSError as error:
        raise StorageError(f"can't be read: {error.strerror}", where=path) from None
    return hashlib.sha256(f"{job}\0{path}\0{status.st_mtime_ns}\0{status.st_size}".encode()).hexdigest()


def _time(place: Path, path: str) -> str:
    try:
        return str(place.stat().st_mtime_ns)
    except OSError as error:
        raise StorageError(f"can't be read: {error.strerror}", where=path) from None


def _size(place: Path, path: str) -> int:
    try:
        return place.stat().st_size
    except OSError as error:
        raise StorageError(f"can't be read: {error.strerror}", where=path) from None


def _pieces(place: Path, offset: int, left: int) -> Iterator[bytes]:
    with place.open("rb") as file:
        file.seek(offset)
        while left and (piece := file.read(min(PIECE, left))):
            left -= len(piece)
            yield piece
