"""The containers in which Azure's clients look for blobs, over datastores, jobs and uploads of code.

NAME               the datastore of that name, and in the default one `azureml/JOB/OUTPUT/`: outputs of jobs
workspaceartifactstore   `ExperimentRun/dcid.JOB/`: a job's unnamed output and its logs; read-only
code-ID            a code that is being uploaded
mlflow-run-ID      the artifacts of a run of MLflow's
"""

from __future__ import annotations

import hashlib
import os
import re
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Protocol

from drumbeat.model.errors import DrumbeatError, NotFoundError, RefusedError
from drumbeat.model.folder_layout import MANIFEST
from drumbeat.model.input_listing import ListedFile
from drumbeat.server.azure import job_logs
from drumbeat.server.control import Control
from drumbeat.server.data.manifests import replace_file
from drumbeat.server.metrics.mlflow.logged_models import KIND as LOGGED_MODELS

DEFAULT_STORE, ARTIFACTS = "workspaceblobstore", "workspaceartifactstore"
CODE = "code-"
CODE_CONTAINER = re.compile(r"code-[0-9a-f-]{8,64}", re.ASCII)
MLFLOW_RUN = "mlflow-run-"
LOGGED_MODEL = "m-"
"""What ids of logged models begin with, and those of runs don't."""
RUNS = "ExperimentRun/dcid."
_RUN = re.compile(r"ExperimentRun/dcid\.(?P<job>[^/]+)/(?P<path>.*)", re.DOTALL)
_OUTPUT = re.compile(r"azureml/(?P<job>[^/]+)/(?P<output>\w+)(?:/(?P<path>.*))?", re.ASCII | re.DOTALL)
PIECE = 1 << 20
MAX_NAME = 255
"""Bytes of a file's name."""


@dataclass(frozen=True)
class Blob:
    """A blob. name: in its container. tag: changes with its content."""

    name: str
    size: int
    tag: str
    is_folder: bool = False


class BlobContainer(Protocol):
    """Reads, lists and writes blobs; every call may block. Raises what the store raises."""

    def find(self, name: str) -> Blob:
        """Returns a blob. Raises NotFoundError."""
        ...

    def read(self, blob: Blob, start: int, end: int) -> Iterator[bytes]:
        """Yields the bytes of a part."""
        ...

    def below(self, prefix: str, *, is_deep: bool) -> Sequence[Blob]:
        """Returns the blobs whose names begin with a prefix, by name; else the files and folders of its folder."""
        ...

    def write(self, name: str, pieces: Iterable[bytes], size: int) -> None:
        """Writes a blob, whole or not at all."""
        ...


def require_inner(name: str) -> str:
    """Returns the name of a blob. Raises RefusedError for one that could lead out of its container."""
    parts = name.split("/")
    if not name or "\0" in name or any(part in ("", ".", "..") for part in parts) or len(name) > 1024:
        raise RefusedError("this can't be the name of a blob", where=ascii(name[:200]))
    return name


def folder_of(prefix: str) -> str:
    """Returns the folder in which all names with a prefix lie, "" = the container."""
    return prefix.rpartition("/")[0]


# --- datastores ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class StoreContainer:
    """A datastore."""

    control: Control
    store: str

    def find(self, name: str) -> Blob:
        require_inner(name)
        if own := self._of_job(name):
            return replace(own.container.find(own.kept), name=name)
        file = self._listed(name)
        return Blob(name, file.size, file.key)

    def _listed(self, name: str) -> ListedFile:
        try:
            (file,) = self.control.data.listing(self._uri(name), is_file=True).files
        except RefusedError as error:  # It is a folder.
            raise NotFoundError(error.what, where=error.where) from None
        if name.rpartition("/")[2] == MANIFEST:
            raise NotFoundError("there is no such blob", where=name)
        return file

    def read(self, blob: Blob, start: int, end: int) -> Iterator[bytes]:
        if own := self._of_job(blob.name):
            return own.container.read(replace(blob, name=own.kept), start, end)
        return self.control.data.read(self._uri(blob.name), self._listed(blob.name), start, end - start)

    def below(self, prefix: str, *, is_deep: bool) -> Sequence[Blob]:
        if own := self._of_job(prefix):
            listed = own.container.below(own.kept, is_deep=is_deep)
            return [replace(one, name=own.shown(one.name)) for one in listed if not own.is_file or one.name == own.kept]
        folder = folder_of(prefix)
        try:
            listed = self._all(folder) if is_deep else self._entries(folder)
        except NotFoundError:
            return []
        return sorted((one for one in listed if one.name.startswith(prefix)), key=lambda one: one.name)

    def _all(self, folder: str) -> Iterator[Blob]:
        start = f"{folder}/" if folder else ""
        for file in self.control.data.listing(self._uri(folder), is_file=False).files:
            if file.path.rpartition("/")[2] != MANIFEST:
                yield Blob(f"{start}{file.path}", file.size, file.key)

    def _entries(self, folder: str) -> Iterator[Blob]:
        start = f"{folder}/" if folder else ""
        for one in self.control.data.entries(self._uri(folder)):
            if one.path.rpartition("/")[2] != MANIFEST:
                yield Blob(f"{start}{one.path}", one.size, f"{one.path}-{one.size}", is_folder=one.is_folder)

    def write(self, name: str, pieces: Iterable[bytes], size: int) -> None:
        require_inner(name)
        if self._of_job(name):
            raise RefusedError("this is an output of a job, which nothing else writes", where=name)
        replace_file(self.control.data, self._uri(folder_of(name)), name.rpartition("/")[2], pieces, size)

    def _uri(self, path: str) -> str:
        return f"azureml://datastores/{self.store}/paths/{path}"

    def _of_job(self, name: str) -> OutputBlob | None:
        """Returns where an output of a job lies that has no other place; None = the name is another blob's."""
        match = _OUTPUT.fullmatch(name) if self.store == DEFAULT_STORE else None
        if match is None:
            return None
        try:
            job = self.control.store.load(match["job"]).job
        except NotFoundError:
            return None
        output = next((one for one in job.plan.outputs if one.name == match["output"] and not one.uri), None)
        if output is None:
            return None
        container = JobContainer(self.control, job.name)
        return OutputBlob(container, output.name, match["path"] or "", is_file=output.type == "uri_file")


# --- jobs ------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class JobContainer:
    """The files of a job, by their paths in its folder."""

    control: Control
    job: str

    def find(self, name: str) -> Blob:
        require_inner(name)
        status = os.stat(self.control.jobs.open_file(self.job, name))  # noqa: PTH116 - os.stat and Path.stat are the same
        return Blob(name, status.st_size, f"{status.st_mtime_ns:x}-{status.st_size:x}")

    def read(self, blob: Blob, start: int, end: int) -> Iterator[bytes]:
        return file_pieces(self.control.jobs.open_file(self.job, blob.name), start, end)

    def below(self, prefix: str, *, is_deep: bool) -> Sequence[Blob]:
        files = [one for one in self.control.jobs.files(self.job) if one.path.startswith(prefix)]
        listed = [Blob(one.path, one.size, one.sha256 or f"{one.path}-{one.size}") for one in files]
        return listed if is_deep else direct(listed, prefix)

    def write(self, name: str, pieces: Iterable[bytes], size: int) -> None:  # noqa: ARG002 - of the contract
        raise RefusedError("the files of a job are read-only", where=name)


@dataclass(frozen=True)
class OutputBlob:
    """A place in an output of a job. path: within it.

    is_file: whether the output is a file. For clients, which look into folders, it lies in a folder of its own name.
    """

    container: JobContainer
    output: str
    path: str
    is_file: bool

    @property
    def kept(self) -> str:
        """The path in the job's folder, or what such paths begin with."""
        if self.is_file and self.path in ("", self.output):
            return f"outputs/{self.output}"
        return f"outputs/{self.output}/{self.path}"

    def shown(self, kept: str) -> str:
        """Returns the name of the blob that a file in the job's folder is."""
        name = f"{self.output}/{self.output}" if self.is_file else kept.removeprefix("outputs/")
        return f"azureml/{self.container.job}/{name}"


@dataclass(frozen=True)
class ArtifactContainer:
    """Unnamed outputs and logs of jobs, where Azure has them."""

    control: Control

    def find(self, name: str) -> Blob:
        job, path = self._place(name)
        if job_logs.is_log(path):
            log = job_logs.find(self.control, job, path)
            return Blob(name, log.size, f"log-{log.size}")
        return replace(JobContainer(self.control, job).find(_shown_to_kept(path)), name=name)

    def read(self, blob: Blob, start: int, end: int) -> Iterator[bytes]:
        job, path = self._place(blob.name)
        if job_logs.is_log(path):
            return job_logs.find(self.control, job, path).pieces(start, end)
        kept = replace(blob, name=_shown_to_kept(path))
        return JobContainer(self.control, job).read(kept, start, end)

    def below(self, prefix: str, *, is_deep: bool) -> Sequence[Blob]:
        match = _RUN.fullmatch(prefix)
        if match is None:
            return []
        try:
            listed = [*self._of_job(match["job"])]
        except NotFoundError:
            return []
        start = f"{RUNS}{match['job']}/"
        named = [replace(one, name=f"{start}{one.name}") for one in listed]
        chosen = sorted((one for one in named if one.name.startswith(prefix)), key=lambda one: one.name)
        return chosen if is_deep else direct(chosen, prefix)

    def _of_job(self, job: str) -> Iterator[Blob]:
        for blob in JobContainer(self.control, job).below("", is_deep=True):
            if shown := _kept_to_shown(blob.name):
                yield replace(blob, name=shown)
        for name, log in job_logs.logs(self.control, job).items():
            yield Blob(name, log.size, f"log-{log.size}")

    def write(self, name: str, pieces: Iterable[bytes], size: int) -> None:  # noqa: ARG002 - of the contract
        raise RefusedError("the artifacts of jobs are read-only here", where=name, fix="Use MLflow's API to log files.")

    @staticmethod
    def _place(name: str) -> tuple[str, str]:
        match = _RUN.fullmatch(require_inner(name))
        if match is None:
            raise NotFoundError("there is no such artifact", where=name[:300])
        return match["job"], match["path"]


def _kept_to_shown(path: str) -> str:
    """Returns the path of an artifact of a file in a job's folder, "" = it is none."""
    if path.startswith("outputs/default/"):
        return "outputs/" + path.removeprefix("outputs/default/")
    return path if path.startswith("logs/") else ""


def _shown_to_kept(path: str) -> str:
    return "outputs/default/" + path.removeprefix("outputs/") if path.startswith("outputs/") else path


# --- runs of MLflow --------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class RunContainer:
    """The artifacts of a run of MLflow's, or the files of a logged model, among the artifacts of a job ("" = none)."""

    control: Control
    job: str
    folder: str

    def find(self, name: str) -> Blob:
        status = self._locate(name).stat()
        return Blob(name, status.st_size, f"{status.st_mtime_ns:x}-{status.st_size:x}")

    def _locate(self, name: str) -> Path:
        try:
            place = self.control.artifacts.of_runs.locate(self.job, f"{self.folder}/{require_inner(name)}")
        except FileNotFoundError:
            place = None
        if place is None or not place.is_file():
            raise NotFoundError("the run has no such artifact", where=name[:300])
        return place

    def read(self, blob: Blob, start: int, end: int) -> Iterator[bytes]:
        return file_pieces(self._locate(blob.name), start, end)

    def below(self, prefix: str, *, is_deep: bool) -> Sequence[Blob]:
        listed = sorted(self._all(folder_of(prefix)), key=lambda one: one.name)
        chosen = [one for one in listed if one.name.startswith(prefix)]
        return chosen if is_deep else direct(chosen, prefix)

    def _all(self, folder: str) -> Iterator[Blob]:
        start = f"{folder}/" if folder else ""
        for one in self.control.artifacts.of_runs.entries(self.job, f"{self.folder}/{folder}".rstrip("/")) or ():
            if one.size is None:
                yield from self._all(start + one.name)
            else:
                yield Blob(start + one.name, one.size, f"{one.name}-{one.size}")

    def write(self, name: str, pieces: Iterable[bytes], size: int) -> None:  # noqa: ARG002 - of the contract
        self.control.artifacts.of_runs.put(self.job, f"{self.folder}/{_require_short(name)}", pieces)


def artifacts_of(control: Control, id: str) -> RunContainer:
    """Returns the artifacts of a run, or of a logged model, by its id. Raises NotFoundError."""
    store = control.metrics.store
    if not id.startswith(LOGGED_MODEL):
        run = store.run(id)
        return RunContainer(control, run.job, run.id)
    source = store.document(LOGGED_MODELS, id).body["info"]["source_run_id"]
    return RunContainer(control, store.run(source).job if source else "", f"models/{id}")


# --- code ------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class FolderContainer:
    """A folder of the server in which a code is gathered."""

    folder: Path

    def find(self, name: str) -> Blob:
        place = self.folder / _require_short(name)
        if not place.is_file():
            raise NotFoundError("there is no such blob", where=name[:300])
        status = place.stat()
        return Blob(name, status.st_size, f"{status.st_mtime_ns:x}-{status.st_size:x}")

    def read(self, blob: Blob, start: int, end: int) -> Iterator[bytes]:
        return file_pieces(self.folder / require_inner(blob.name), start, end)

    def below(self, prefix: str, *, is_deep: bool) -> Sequence[Blob]:
        files = sorted(place for place in self.folder.rglob("*") if place.is_file())
        named = [(place.relative_to(self.folder).as_posix(), place.stat()) for place in files]
        listed = [
            Blob(name, status.st_size, f"{status.st_mtime_ns:x}-{status.st_size:x}")
            for name, status in named
            if name.startswith(prefix)
        ]
        return listed if is_deep else direct(listed, prefix)

    def write(self, name: str, pieces: Iterable[bytes], size: int) -> None:  # noqa: ARG002 - of the contract
        place = self.folder / _require_short(name)
        try:
            place.parent.mkdir(0o700, parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise RefusedError("a blob is where a folder would be", where=name[:300]) from None
        # Beside the folder, so that a blob which is incomplete is never packed.
        aside = self.folder.with_name(f".{self.folder.name}.{os.urandom(8).hex()}")
        try:
            with aside.open("wb") as file:
                for piece in pieces:
                    file.write(piece)
            aside.replace(place)
        except IsADirectoryError:
            aside.unlink(missing_ok=True)
            raise RefusedError("a folder is where the blob would be", where=name[:300]) from None
        except BaseException:
            aside.unlink(missing_ok=True)
            raise


def _require_short(name: str) -> str:
    """Returns the name of a blob that a file may have. Raises RefusedError."""
    if any(len(part.encode(errors="surrogateescape")) > MAX_NAME for part in require_inner(name).split("/")):
        raise RefusedError(f"a part of the name is longer than {MAX_NAME} bytes", where=ascii(name[:200]))
    return name


def direct(listed: Sequence[Blob], prefix: str) -> list[Blob]:
    """Returns the blobs directly in the folder of a prefix, and a folder for each of the others."""
    start = len(prefix.rpartition("/")[0]) + 1 if "/" in prefix else 0
    made: dict[str, Blob] = {}
    for one in listed:
        inner, is_deeper, _ = one.name[start:].partition("/")
        name = one.name[:start] + inner
        if is_deeper:
            made.setdefault(name, Blob(name, 0, "", is_folder=True))
        else:
            made[name] = one
    return [made[name] for name in sorted(made)]


def file_pieces(place: Path, start: int, end: int) -> Iterator[bytes]:
    """Yields a part of a file."""
    with place.open("rb") as file:
        file.seek(start)
        left = end - start
        while left > 0 and (piece := file.read(min(left, PIECE))):
            left -= len(piece)
            yield piece


def pack_code(folder: Path, file: IO[bytes]) -> str:
    """Writes a folder as a tar like the command line's, and returns its SHA-256.

    Blobs have no modes: files that begin with `#!` are executable.
    """
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for place in sorted(folder.rglob("*"), key=lambda one: one.relative_to(folder).as_posix().encode()):
            info = tarfile.TarInfo(place.relative_to(folder).as_posix())
            if place.is_dir():
                info.type, info.mode = tarfile.DIRTYPE, 0o755
                tar.addfile(info)
                continue
            with place.open("rb") as content:
                info.size = place.stat().st_size
                info.mode = 0o755 if content.read(2) == b"#!" else 0o644
                content.seek(0)
                tar.addfile(info, content)
    file.seek(0)
    digest = hashlib.sha256()
    while piece := file.read(PIECE):
        digest.update(piece)
    return digest.hexdigest()


def container(control: Control, folder: Path, name: str) -> BlobContainer:
    """Returns a container. folder: of the server, for what is uploaded. Raises NotFoundError."""
    if name == ARTIFACTS:
        return ArtifactContainer(control)
    if name.startswith(CODE) and CODE_CONTAINER.fullmatch(name):
        return FolderContainer(folder / "code" / name)
    if name.startswith(MLFLOW_RUN):
        return artifacts_of(control, name.removeprefix(MLFLOW_RUN))
    with suppress(DrumbeatError):
        control.catalogs.datastores.show(name)
        return StoreContainer(control, name)
    raise NotFoundError(f"there is no container {name[:100]!a}", fix="List the datastores: drumbeat datastore list")
