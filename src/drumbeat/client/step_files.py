"""Sends the local files of a pipeline's steps, and names them by the steps' paths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, cast

from drumbeat.client.component_files import FileOrigin, Inlined, StepSource, inline
from drumbeat.client.connection import Connection
from drumbeat.client.job_upload import JobParcel, WrittenJob, snapshot_digest, with_properties
from drumbeat.jobfile.data.paths import local_path
from drumbeat.model.api.requests import EnvironmentFiles, StepParts
from drumbeat.model.errors import SpecError


@dataclass(frozen=True)
class SentParts:
    """A document with its components, and what was sent for its steps. notes: what a user should know of them."""

    document: dict[str, Any]
    parts: dict[str, StepParts] = field(default_factory=dict[str, StepParts])
    notes: tuple[str, ...] = ()


def send_parts(job: WrittenJob, connection: Connection, *, is_sending: bool) -> SentParts:
    """Returns a pipeline's document with its components in it, and the parts of its steps. Raises SpecError."""
    inlined = inline(job.document, FileOrigin(job.base, job.source, job.text))
    if is_sending:
        _note_commits(inlined, connection)
    return send_inlined(inlined, connection, is_sending=is_sending)


def _note_commits(inlined: Inlined, connection: Connection) -> None:
    """Writes into the properties of each step which commit its code is. Git is asked once of each folder."""
    from drumbeat.client.git_commit import git_properties

    of_folder = cache(git_properties)
    courier = Courier(connection, is_sending=True)
    for path, source in inlined.steps.items():
        if source.command and (place := courier.parcel(*source.command).code_place()):
            node = _node(inlined.document, path)
            node.update(with_properties(node, of_folder(place)))


def _node(document: dict[str, Any], path: str) -> dict[str, Any]:
    """The table of a step in a document with its components."""
    table = document
    for name in path.split("/"):
        component = table.get("component")
        table = (cast("dict[str, Any]", component) if isinstance(component, dict) else table)["jobs"][name]
    return table


def send_inlined(inlined: Inlined, connection: Connection, *, is_sending: bool, is_kept: bool = False) -> SentParts:
    """Sends what belongs to the steps of a document. is_kept: copies also of data that nodes could use in place."""
    courier = Courier(connection, is_sending=is_sending, is_kept=is_kept)
    parts = {path: courier.parts(path, source) for path, source in inlined.steps.items()}
    return SentParts(inlined.document, parts, tuple(courier.notes))


@dataclass(frozen=True)
class Courier:
    """Sends the parts of steps. notes: its remarks, one step after the other."""

    connection: Connection
    is_sending: bool
    is_kept: bool = False
    notes: list[str] = field(default_factory=list[str])

    def parts(self, path: str, source: StepSource) -> StepParts:
        """Sends what belongs to one step."""
        table, origin = source.inputs
        inputs = self.parcel({**table, "inputs": _without_expressions(table.get("inputs") or {})}, origin)
        places = inputs.inputs()
        code = self._code(*source.command) if source.command else None
        files = self.parcel(*source.environment).environment() if source.environment else EnvironmentFiles()
        self.notes.extend(f"step {path}: {note}" for note in inputs.followed)
        return StepParts(code, places, files)

    def parcel(self, table: Mapping[str, Any], origin: FileOrigin) -> JobParcel:
        """Returns the local parts of a table of keys."""
        written = WrittenJob(dict(table), origin.base, origin.source, origin.text, origin.keys)
        return JobParcel(written, self.connection, is_sending=self.is_sending, is_kept=self.is_kept)

    def _code(self, table: Mapping[str, Any], origin: FileOrigin) -> str | None:
        parcel = self.parcel(table, origin)
        includes: list[str] = table.get("additional_includes") or []
        if not includes:
            self.notes.extend(f"step {'.'.join(origin.keys)}: {note}" for note in parcel.local_notes())
            return parcel.code()
        code = table.get("code")
        path = local_path(code) if isinstance(code, str) else None
        if code is not None and path is None:
            raise SpecError("files can't be added to code that isn't here", where=origin.where("additional_includes"))
        place = None if path is None else parcel.local_place(path, "code")
        added = [parcel.local_place(local_path(one) or one, "additional_includes") for one in includes]
        return snapshot_digest(self.connection, place, "code", is_sending=self.is_sending, added=added)


def _without_expressions(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs but those whose `path` has `${{ }}` in it: what that means, the server says."""
    return {name: value for name, value in inputs.items() if "${{" not in _path(value)}


def _path(value: object) -> str:
    return str(cast("Mapping[str, object]", value).get("path") or "") if isinstance(value, Mapping) else ""
