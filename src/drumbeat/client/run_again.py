"""Builds the request that runs an earlier job again, with changes."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from drumbeat.client.connection import Connection
from drumbeat.client.git_commit import PREFIX, SAME, git_properties
from drumbeat.client.job_upload import snapshot_digest
from drumbeat.model.api.page import DefinitionView
from drumbeat.model.api.requests import JobRequest
from drumbeat.model.errors import SpecError


@dataclass(frozen=True)
class Changes:
    """How a job that is run again differs.

    sets: `key.path=value` in its job file. name: None = the server makes one up. resume: whether it continues the
    earlier job from its last checkpoint. code: a folder on this machine, or the definition of another job, whose code
    it runs; None = that of the earlier job.
    """

    sets: Sequence[str] = ()
    name: str | None = None
    resume: bool = False
    code: Path | DefinitionView | None = None


def request_like(
    like: str, earlier: DefinitionView, changes: Changes, connection: Connection, *, is_sending: bool
) -> JobRequest:
    """Returns the request. is_sending: a folder is sent first; else it is only hashed.

    Raises SpecError, RefusedError.
    """
    from drumbeat.jobfile.reading import overrides

    document = {key: value for key, value in earlier.document.items() if key != "name"}
    _, problems = overrides.apply(document, changes.sets)
    if problems:
        raise SpecError.from_problems(problems)
    document |= {"name": changes.name} if changes.name else {}
    code = None
    if changes.code is not None:
        code, commit = _code(document, changes.code, connection, is_sending=is_sending)
        kept = {key: text for key, text in _properties(document).items() if not _is_of_git(key)}
        document["properties"] = {**kept, **commit}
    return JobRequest(document, uuid.uuid4().hex, f"job {like}", code=code, like=like, resume=changes.resume)


def _code(
    document: dict[str, Any], code: Path | DefinitionView, connection: Connection, *, is_sending: bool
) -> tuple[str, dict[str, str]]:
    """Returns the digest of the code, and the properties that say which commit it is; the document names its folder."""
    if document.get("type") == "pipeline":
        fix = "Change it in a job file, and run that: drumbeat run job.yml"
        raise SpecError("each step of a pipeline has code of its own", where="code", fix=fix)
    if not isinstance(code, Path):
        if code.plan.code is None:
            raise SpecError(f"job {code.plan.job} has no code", where="code", fix="Name another job.")
        return code.plan.code, {key: text for key, text in _properties(code.document).items() if _is_of_git(key)}
    place = code.expanduser().resolve()
    if not place.is_dir():
        raise SpecError(f"{code} isn't a folder", where="code", fix="Name the folder with the code.")
    trial = document.get("trial")
    command = cast("dict[str, Any]", trial) if isinstance(trial, dict) else document
    command["code"] = str(place)
    return snapshot_digest(connection, place, "code", is_sending=is_sending), git_properties(place)


def _properties(document: Mapping[str, Any]) -> dict[str, str]:
    return cast("dict[str, str]", document.get("properties") or {})


def _is_of_git(key: str) -> bool:
    """Whether a property says which commit the code is."""
    return key.startswith(PREFIX) or key in SAME.values()
