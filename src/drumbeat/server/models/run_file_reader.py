"""Reads the files that MLflow's clients logged as data: `mlflow-artifacts:/<path>` outside of jobs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from drumbeat.jobfile.data.paths import JobOutputReference
from drumbeat.model.api.data import Written
from drumbeat.model.errors import ConflictError, NotFoundError, RefusedError
from drumbeat.model.input_listing import Link, ListedFile, Listing, listing
from drumbeat.ports.data import DataAccess, Entry
from drumbeat.server.home_folder import FolderRunFiles
from drumbeat.server.home_folder.run_file import RUN_FILES

SCHEME = "mlflow-artifacts:/"
PIECE = 1 << 20


@dataclass(frozen=True)
class RunFiles:
    """A folder of files that a run logged. job: the run's, "" = it was outside of jobs. path: as there."""

    job: str
    path: str

    @property
    def uri(self) -> str:
        """The address at which the server, and so nodes, read them."""
        return JobOutputReference(self.job, RUN_FILES, self.path).uri if self.job else f"{SCHEME}{self.path}"


class RunFileReader:
    """The `DataAccess` of files of runs outside of jobs. rest: reads all other URIs."""

    def __init__(self, files: FolderRunFiles, rest: DataAccess) -> None:
        self._files, self._rest = files, rest

    def listing(self, uri: str, *, is_file: bool) -> Listing:
        if not _is_ours(uri):
            return self._rest.listing(uri, is_file=is_file)
        path = _path(uri)
        if is_file:
            file = self._files.locate("", path)
            return listing([_listed(file, file.name, alone=True)], is_file=True)
        files = [_listed(self._files.locate("", one), one[len(path) + 1 :]) for one in self._below(path)]
        if not files:
            raise NotFoundError("no such folder of artifacts", where=uri)
        return listing(files)

    def _below(self, path: str) -> Iterator[str]:
        for entry in self._files.entries("", path) or ():
            inner = f"{path}/{entry.name}"
            if entry.size is None:
                yield from self._below(inner)
            else:
                yield inner

    def links(self, uri: str, files: Sequence[ListedFile], lifetime_s: float) -> list[Link | None]:
        return [None] * len(files) if _is_ours(uri) else self._rest.links(uri, files, lifetime_s)

    def folder(self, uri: str) -> str:
        if not _is_ours(uri):
            return self._rest.folder(uri)
        path = _path(uri)
        for one in self._below(path):
            return str(self._files.locate("", one)).removesuffix(one[len(path) :])
        return ""

    def read(self, uri: str, file: ListedFile, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        if not _is_ours(uri):
            return self._rest.read(uri, file, offset, length)
        place = self._files.locate("", _path(uri) if file.alone else f"{_path(uri)}/{file.path}")
        if _listed(place, file.path).key != file.key:
            raise ConflictError(f"{file.path} has changed since it was listed", where=uri)
        return _pieces(place, offset, file.size - offset if length is None else min(length, file.size - offset))

    def write(self, uri: str, path: str, pieces: Iterable[bytes], size: int) -> Written:
        _require_other(uri)
        return self._rest.write(uri, path, pieces, size)

    def write_link(self, uri: str, lifetime_s: float) -> Link:
        _require_other(uri)
        return self._rest.write_link(uri, lifetime_s)

    def entries(self, uri: str) -> Sequence[Entry]:
        if not _is_ours(uri):
            return self._rest.entries(uri)
        inner = self._files.entries("", _path(uri))
        if inner is None:
            raise NotFoundError("no such folder of artifacts", where=uri)
        return [Entry(one.name, one.size or 0, is_folder=one.size is None) for one in inner]

    def remove(self, uri: str, path: str) -> None:
        _require_other(uri)
        self._rest.remove(uri, path)


def _is_ours(uri: str) -> bool:
    return uri.startswith(SCHEME)


def _path(uri: str) -> str:
    return uri.removeprefix(SCHEME).strip("/")


def _require_other(uri: str) -> None:
    if _is_ours(uri):
        raise RefusedError("the artifacts of runs are read-only here", where=uri, fix="Log them with MLflow's client.")


def _listed(file: Path, path: str, *, alone: bool = False) -> ListedFile:
    status = file.stat()
    key = hashlib.sha256(f"{file}\0{status.st_mtime_ns}\0{status.st_size}".encode()).hexdigest()
    return ListedFile(path, status.st_size, key, tag=str(status.st_mtime_ns), alone=alone)


def _pieces(place: Path, offset: int, left: int) -> Iterator[bytes]:
    with place.open("rb") as file:
        file.seek(offset)
        while left > 0 and (piece := file.read(min(PIECE, left))):
            left -= len(piece)
            yield piece
