"""Where a model came from, by hash: the job that made it, with its code, data and environment."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from drumbeat._version import __version__
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.models.statement import digest_of_pieces
from drumbeat.jobfile.data.paths import JobOutputReference, reference_to
from drumbeat.model import wire
from drumbeat.model.api.models import CheckedPart
from drumbeat.model.errors import DrumbeatError, NotFoundError
from drumbeat.model.metrics import run_id
from drumbeat.server.database import SqlStore
from drumbeat.server.home_folder import FolderArtifacts
from drumbeat.server.models.model_kinds import DATA, VERSIONS

PIECE = 1 << 20

LastValues = Callable[[str], Mapping[str, Any]]
"""Returns the last value of each metric of rank 0 of a job's own run, by name."""


@dataclass(frozen=True)
class LineageReader:
    """Reads the origin of models from jobs."""

    store: SqlStore
    artifacts: FolderArtifacts
    last_values: LastValues = lambda _: {}

    def of(self, made_by: str, uri: str, *, run: str = "", logged_model: str = "") -> dict[str, Any]:
        """Returns the origin of a model at a URI that a job made. made_by: "" = a person registered it."""
        lineage: dict[str, Any] = {"drumbeat": __version__}
        writer = writer_of(uri) or made_by
        with suppress(NotFoundError):
            if writer:
                lineage |= self._of_job(writer)
                run = run or run_id(writer)
        if made_by and made_by != writer:
            lineage["registered_by"] = made_by
        if run:
            lineage["mlflow"] = {"run": run, **({"logged_model": logged_model} if logged_model else {})}
        return lineage

    def _of_job(self, name: str) -> dict[str, Any]:
        record = self.store.load(name)
        job, plan = record.job, record.job.plan
        environment = {
            "name": plan.environment,
            "key": plan.python.key if plan.python else "",
            "image": plan.container.image if plan.container else "",
            "build": plan.container.build.key if plan.container and plan.container.build else "",
        }
        lineage: dict[str, Any] = {
            "job": {
                "name": job.unique_name, "plan": plan_digest(job), "file": _digest_of_json(record.spec),
                "person": job.user, "parent": job.parent, "submitted_at": job.submitted_at.isoformat(),
            },
            "code": {"snapshot": plan.code.removeprefix("snapshot:") if plan.code else ""},
            "environment": {key: value for key, value in environment.items() if value},
            "data": list(self._inputs(job)),
        }  # fmt: skip
        with suppress(DrumbeatError):
            if values := self.last_values(name):
                lineage["metrics"] = dict(values)
        return lineage

    def _inputs(self, job: Job) -> Iterator[dict[str, Any]]:
        named = {use.role: use for use in self.store.uses(job.name) if use.kind in (DATA, VERSIONS)}
        for one in job.plan.inputs:
            entry = {"input": one.name, "uri": one.uri}
            use = named.get(f"inputs.{one.name}")
            with suppress(NotFoundError):
                if use:
                    asset = self.store.resource(use.kind, use.name, use.version)
                    entry |= {"kind": use.kind, "name": use.name, "version": use.version, "digest": asset.digest}
                    if use.kind == VERSIONS and (statement := asset.document.get("statement")):
                        entry["statement"] = str(statement)
            yield entry

    def texts(self, name: str) -> dict[str, str]:
        """Returns plan and story of a job as files, by name; nothing of a deleted one."""
        try:
            job = self.store.load(name).job
        except NotFoundError:
            return {}
        story = "".join(f"{json.dumps(wire.to_wire(one))}\n" for one in self.store.events(name))
        return {"plan.json": wire.dumps(job.plan), "story.jsonl": story}

    # --- back -------------------------------------------------------------------------------------------------
    def verify(self, lineage: Mapping[str, Any]) -> Iterator[CheckedPart]:
        """Follows each hash to what it names, where that is still here."""
        if job := lineage.get("job"):
            yield self._verify_job(job)
        if digest := lineage.get("code", {}).get("snapshot"):
            yield self._verify_code(digest)
        for one in lineage.get("data", ()):
            if one.get("name"):
                yield self._verify_input(one)

    def _verify_job(self, job: Mapping[str, Any]) -> CheckedPart:
        name = str(job["name"])
        try:
            record = self.store.load(name.partition("~")[0])
        except NotFoundError:
            return CheckedPart("job", "gone", f"job {name} was deleted")
        if record.job.unique_name != name:
            return CheckedPart("job", "gone", f"job {name} was deleted")
        if plan_digest(record.job) != job["plan"] or _digest_of_json(record.spec) != job["file"]:
            return CheckedPart("job", "wrong", f"the plan or the file of job {name} isn't the one that was signed")
        return CheckedPart("job", "verified", f"job {name} has the plan and the file that were signed")

    def _verify_code(self, digest: str) -> CheckedPart:
        try:
            with self.artifacts.open_snapshot(digest) as file:
                actual = digest_of_pieces(iter(lambda: file.read(PIECE), b""))
        except NotFoundError:
            return CheckedPart("code", "gone", f"snapshot {digest[:12]} was removed")
        if actual != digest:
            return CheckedPart("code", "wrong", f"snapshot {digest[:12]} has changed on the disk")
        return CheckedPart("code", "verified", f"snapshot {digest[:12]} is the code that ran")

    def _verify_input(self, one: Mapping[str, Any]) -> CheckedPart:
        part = "model" if one["kind"] == VERSIONS else "data"
        title = f"{one['name']}:{one['version']}"
        try:
            asset = self.store.resource(one["kind"], one["name"], one["version"])
        except NotFoundError:
            return CheckedPart(part, "gone", f"{part} {title} was deleted")
        if asset.digest != one["digest"]:
            return CheckedPart(part, "wrong", f"{part} {title} isn't the one that was read")
        return CheckedPart(part, "verified", f"{part} {title} is registered with the same digest")


def writer_of(uri: str) -> str:
    """Returns the job in whose folder a URI is, "" = none."""
    reference = reference_to(uri) if uri.startswith("azureml:") else None
    return reference.job if isinstance(reference, JobOutputReference) else ""


def plan_digest(job: Job) -> str:
    """Returns the SHA-256 of a job's `plan.json`."""
    return hashlib.sha256(wire.dumps(job.plan).encode()).hexdigest()


def _digest_of_json(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
