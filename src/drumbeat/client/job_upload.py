"""From a job as a user gives it to what the server takes: the document, its code, its local inputs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from drumbeat.client.connection import Connection, part
from drumbeat.model.api.requests import EnvironmentFiles
from drumbeat.model.errors import NotFoundError, SpecError

if TYPE_CHECKING:
    from drumbeat.client.snapshot import Snapshot
    from drumbeat.jobfile.reading.model import Model


class JobDraft(Protocol):
    """A job made in Python that isn't checked yet: what `command(...)` gives."""

    def to_job(self) -> Model:
        """The job. Raises SpecError."""
        ...


if TYPE_CHECKING:
    GivenJob = str | Path | Mapping[str, Any] | Model | JobDraft
    GivenCompute = str | Path | Mapping[str, Any] | Model


@dataclass(frozen=True)
class WrittenJob:
    """A job and its origin. base: the folder that local paths count from. source: for messages. text: of a file."""

    document: dict[str, Any]
    base: Path
    source: str
    text: str = ""
    keys: tuple[str, ...] = ()
    """The keys that lead to it in the file, of a part of a job."""


@dataclass(frozen=True)
class Given:
    """What a user said beside the job. sets: `key.path=value`, only for a file. name: of the job."""

    sets: Sequence[str] = ()
    name: str | None = None


def written(job: GivenJob, given: Given) -> WrittenJob:
    """The job as a document. Raises SpecError."""
    from drumbeat.client.environment_files import with_environments

    written_job = _read(job, given.sets)
    document = with_environments(written_job.document, written_job.base)
    return replace(written_job, document={**document, "name": given.name} if given.name else document)


def _read(job: GivenJob, sets: Sequence[str]) -> WrittenJob:
    if isinstance(job, str | Path):
        from drumbeat.jobfile.job_file import load_file
        from drumbeat.jobfile.reading.writer import to_dict

        loaded = load_file(job, overrides=sets)
        return WrittenJob(to_dict(loaded.job), loaded.base, loaded.source, loaded.text)
    if sets:
        raise SpecError("values are set in a job file; this job was made in Python", fix="Set them on the object.")
    if isinstance(job, Mapping):
        return WrittenJob(dict(job), Path.cwd(), "job")
    from drumbeat.jobfile.reading.model import Model
    from drumbeat.jobfile.reading.writer import to_dict

    return WrittenJob(to_dict(job if isinstance(job, Model) else job.to_job()), Path.cwd(), "job")


def described(compute: GivenCompute, sets: Sequence[str]) -> tuple[dict[str, Any], str]:
    """Returns the compute as a document, and its source. Raises SpecError."""
    from drumbeat.jobfile.compute.computes import compute_from, load_compute
    from drumbeat.jobfile.reading.writer import to_dict

    if isinstance(compute, str | Path):
        return to_dict(load_compute(compute, sets)), str(compute)
    if sets:
        raise SpecError("values are set in a file; this compute was made in Python", fix="Set them on the object.")
    return to_dict(compute_from(compute) if isinstance(compute, Mapping) else compute), "compute"


def default_experiment(base: Path) -> str:
    """Returns the folder's name in the form of an experiment's name."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", base.name).strip("-_")[:255] or "default"


def with_properties(document: dict[str, Any], properties: Mapping[str, str]) -> dict[str, Any]:
    """A document with more properties; those that a user has set stay."""
    given = cast("dict[str, Any]", document.get("properties") or {})
    return {**document, "properties": {**properties, **given}} if properties else document


@dataclass(frozen=True)
class JobParcel:
    """What of a job lies on this machine. followed: of inputs that are uploaded, which links lead elsewhere.

    is_kept: data that nodes could use in place is copied, too, for what is to stay as it is now.
    """

    written: WrittenJob
    connection: Connection
    is_sending: bool
    is_kept: bool = False
    followed: list[str] = field(default_factory=list[str])

    @cached_property
    def _command(self) -> dict[str, Any]:
        """The table that names the code and the environment: the job itself, or the trial of a sweep."""
        trial = self.written.document.get("trial")
        return cast("dict[str, Any]", trial) if isinstance(trial, dict) else self.written.document

    @cached_property
    def _command_at(self) -> tuple[str, ...]:
        """Where that stands in the file."""
        return () if self._command is self.written.document else ("trial",)

    def document(self) -> dict[str, Any]:
        """The job, and as its properties which commit its code is; what a user has set there stays."""
        return with_properties(self.written.document, self.commit())

    def commit(self) -> dict[str, str]:
        """Properties that say which commit the code is; {} where nothing is sent, or git has none of it."""
        code = self.code_place() if self.is_sending else None
        if code is None:
            return {}
        from drumbeat.client.git_commit import git_properties

        return git_properties(code)

    def code(self) -> str | None:
        """The digest of the code's snapshot; None when the job has none, or it isn't here."""
        place = self.code_place()
        return self._digest(place, self._key("code")) if place else None

    def _key(self, name: str) -> str:
        return ".".join((*self._command_at, name))

    def local_notes(self) -> Iterator[str]:
        """What only this side sees, and a user should know."""
        from drumbeat.client import local_notes

        code = self.code_place()
        if code:
            written = str(self._command["code"])
            yield from (empty := [*local_notes.notes_on_code(code, written)])
            extensions = cast("dict[str, object]", self.written.document.get("drumbeat") or {})
            if not (empty or extensions.get("prepare") or self._command.get("additional_includes")):
                yield from local_notes.notes_on_script(self._command.get("command"), code, written)
        inputs = cast("dict[str, object]", self.written.document.get("inputs") or {})
        yield from local_notes.notes_on_texts(inputs, self.written.base, code)

    def code_place(self) -> Path | None:
        """Where the code is on this machine; None when there is none here. Raises SpecError."""
        from drumbeat.jobfile.data.paths import local_path

        code = self._command.get("code")
        path = local_path(code) if isinstance(code, str) else None
        return None if path is None else self.local_place(path, self._key("code"))

    def environment(self) -> EnvironmentFiles:
        """The files that the job's environment names."""
        written = self._command.get("environment")
        extra = self.written.document.get("drumbeat")
        is_current = isinstance(extra, dict) and cast("dict[str, Any]", extra).get("environment") == "current"
        if not isinstance(written, Mapping) or is_current:
            return EnvironmentFiles()
        from drumbeat.client.environment_files import EnvironmentOrigin, collect_files

        around = EnvironmentOrigin(
            self.written.base,
            self.written.source,
            self.written.text,
            (*self.written.keys, *self._command_at, "environment"),
        )
        return collect_files(cast("Mapping[str, Any]", written), around, self._digest)

    def inputs(self) -> dict[str, str]:
        """Where the server finds each input that was given by a local path."""
        named = cast("dict[str, Any]", self.written.document.get("inputs") or {})
        places: dict[str, str] = {}
        for name, value in named.items():
            table = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
            path = self._local_path(table.get("path"), f"inputs.{name}.path")
            if path is None:
                continue
            if on_share := self._on_share(Path(path)):
                places[name] = on_share.as_uri()
            else:
                place = self.local_place(path, f"inputs.{name}.path")
                places[name] = self._input(place, f"inputs.{name}", table.get("datastore"))
        return places

    def _local_path(self, path: object, key: str) -> str | None:
        """The path of an input on this machine; None for one that is elsewhere, and for none. Raises SpecError."""
        from drumbeat.jobfile.data.paths import Local, reference_to

        reference = reference_to(path, f"{self.written.source}: {key}") if isinstance(path, str) else None
        return reference.path if isinstance(reference, Local) else None

    def _on_share(self, place: Path) -> Path | None:
        """An input on a share of the job's compute: it needn't be seen here, and is used where it is."""
        from drumbeat.jobfile.compute.computes import compute_from

        if not place.is_absolute() or ".." in place.parts or not (spec := self._compute_spec) or not spec.get("shares"):
            return None
        return place if compute_from(spec).share_at(str(place)) else None

    def _input(self, place: Path, key: str, datastore: str | None) -> str:
        if datastore:
            from drumbeat.client.calls.data import UploadListener, upload_uri

            listener = UploadListener(on_note=lambda sentence: self.followed.append(f"{key}: {sentence}"))
            return upload_uri(self.connection, place, datastore, listener, is_sending=self.is_sending)
        is_seen = not self.is_kept and self.connection.is_here and self._compute_sees(place)
        return place.as_uri() if is_seen else f"snapshot:{self._digest(place, f'{key}.path', is_data=True)}"

    def _compute_sees(self, place: Path) -> bool:
        """Whether the nodes of the job's compute find it where it is."""
        from drumbeat.jobfile.compute.computes import compute_from

        spec = self._compute_spec
        return not spec or compute_from(spec).sees(place)

    @cached_property
    def _compute_spec(self) -> dict[str, Any]:
        """What a user wrote of the job's compute; {} for one that is always there, and for one that isn't."""
        name = self.written.document.get("compute")
        if not isinstance(name, str):
            return {}
        aliases: list[dict[str, str]] = self.connection.call("GET", "/aliases")
        named = {one["name"]: one["target"] for one in aliases if one["kind"] == "compute"}
        name = name.removeprefix("azureml:")
        try:
            return self.connection.call("GET", f"/computes/{part(named.get(name, name))}")["spec"]
        except NotFoundError:
            return {}  # The server says so, with the names that there are.

    def local_place(self, path: str, key: str) -> Path:
        """Returns the absolute path of a local path in the job. path: not a URL."""
        place = (self.written.base / Path(path).expanduser()).resolve()
        if not place.exists():
            where = f"{self.written.source}: {'.'.join((*self.written.keys, key))}"
            fix = f"Paths count from {self.written.base}."
            raise SpecError(f"there is nothing at {path}", where=where, fix=fix)
        return place

    def _digest(self, place: Path, key: str, *, is_data: bool = False) -> str:
        return snapshot_digest(self.connection, place, key, is_sending=self.is_sending, is_data=is_data)


def snapshot_digest(  # noqa: PLR0913 - what is packed, and how
    connection: Connection,
    place: Path | None,
    key: str,
    *,
    is_sending: bool = True,
    is_data: bool = False,
    added: Sequence[Path] = (),
) -> str:
    """The digest of a folder's or file's snapshot, which the server has then if it is sent.

    key: names it in messages. is_data: it is data, and travels whole. added: what is laid over it, under its own name;
    place None = there is nothing else. Raises RefusedError.
    """
    from drumbeat.client.snapshot import pack

    snapshot = pack(place, key, is_data=is_data, added=added)
    with closing(snapshot.file):
        if is_sending:
            _send(connection, snapshot)
        return snapshot.digest


def _send(connection: Connection, snapshot: Snapshot) -> None:
    path = f"/snapshots/{part(snapshot.digest)}"
    try:
        connection.send("HEAD", path)
    except NotFoundError:
        connection.upload(path, snapshot.pieces, snapshot.size)
