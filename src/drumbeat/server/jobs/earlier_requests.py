"""Jobs that are run again: their code, local inputs and environment files are those of the earlier job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

from drumbeat import jobfile
from drumbeat.core.child_jobs import step_name
from drumbeat.core.pipelines.expansion import expand
from drumbeat.core.pipelines.step_jobs import step_request
from drumbeat.jobfile.data.paths import local_path
from drumbeat.jobfile.pipelines.pipeline_job import PipelineJob
from drumbeat.model.api.checkpoints import SnapshotView
from drumbeat.model.api.requests import EnvironmentFiles, JobRequest
from drumbeat.model.errors import NotFoundError, Problem, RefusedError, SpecError
from drumbeat.server.database.records import Record
from drumbeat.server.jobs.job_filter import JobFilter
from drumbeat.server.loop.loop import Loop
from drumbeat.server.resources.records import Use

ORIGIN = "origin"
"""The kind of the use by which a job names the one that it is run again from. Its version is that job's unique name."""
CONTINUED, RUN_AGAIN = "continued", "run again"
"""The roles of that use: the job begins with the checkpoints of the other one, or without them."""
MAX_SNAPSHOTS = 50
_SCANNED = 500
"""Number of jobs of an experiment whose snapshots are offered."""
_FIX = "Change it in a job file, and run that: drumbeat run job.yml"


class EarlierRequests:
    """Completes requests that run an earlier job again. Thread-safe."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def completed(self, request: JobRequest) -> JobRequest:
        """Returns the request with what was sent for the job that it runs again.

        Raises NotFoundError; RefusedError for a job that can't be run by itself; SpecError if the document has another
        local path than the earlier one, whose files were not sent.
        """
        if not request.like:
            return request
        record = self._loop.record(request.like)
        earlier = self._of(record)
        sent = {"code", "trial.code"} if request.code else set[str]()
        if problems := [one for one in _unsent(record.spec, request.document) if one.where not in sent]:
            raise SpecError.from_problems(problems)
        has_files = _environment_files(request.document) == _environment_files(record.spec)
        return replace(
            request,
            experiment=earlier.experiment,
            code=request.code or earlier.code,
            inputs={**_unmoved(earlier.inputs, record.spec, request.document), **request.inputs},
            environment=earlier.environment if has_files else EnvironmentFiles(),
            parts={**earlier.parts, **request.parts},
            notes=(*request.notes, *_code_notes(request, earlier)),
        )

    def uses(self, request: JobRequest) -> tuple[Use, ...]:
        """Returns what is recorded of a job that is run again: from which one."""
        if not request.like:
            return ()
        role = CONTINUED if request.resume else RUN_AGAIN
        return (Use(ORIGIN, request.like, self._loop.record(request.like).job.unique_name, role),)

    def origin(self, name: str) -> str:
        """Returns the job that a job was run again from; "" = none, or it was deleted."""
        for use in self._loop.store.uses(name):
            if use.kind == ORIGIN and self._is_there(use):
                return use.name
        return ""

    def require_origins(self, uses: Iterable[Use]) -> None:
        """Raises NotFoundError if a job that another one is run again from was deleted. Only on the loop's thread."""
        for use in uses:
            if use.kind == ORIGIN and not self._is_there(use):
                raise NotFoundError(f"job {use.name} was deleted", where="like")

    def successors(self, record: Record, role: str = "") -> tuple[str, ...]:
        """Returns the jobs that were run again from a job, the newest first; with a role, those of that role."""
        users = self._loop.store.users(ORIGIN, record.job.name, record.job.unique_name)
        return tuple(job for job, its_role in users if not role or its_role == role)

    def snapshots(self, name: str) -> list[SnapshotView]:
        """Returns the code of a job and of the others of its experiment, each once, by the last job that ran it.

        Raises NotFoundError.
        """
        own = self._loop.record(name)
        chosen = JobFilter(experiments=(own.job.plan.experiment,), is_archived=None, limit=_SCANNED)
        newest: dict[str, SnapshotView] = {}
        for job in [one.job for one in (*self._loop.store.jobs(chosen), own)]:
            if job.plan.code:
                newest.setdefault(job.plan.code, SnapshotView(job.plan.code, job.name, job.submitted_at))
        return list(newest.values())[:MAX_SNAPSHOTS]

    def _is_there(self, use: Use) -> bool:
        try:
            return self._loop.record(use.name).job.unique_name == use.version
        except NotFoundError:
            return False

    def _of(self, record: Record) -> JobRequest:
        """Returns what was sent for a job: of a trial or a step, with its parent."""
        job = record.job
        try:
            return self._loop.store.request(job.name)
        except NotFoundError:
            if not job.parent:
                what = f"job {job.name} was submitted by an earlier version of drumbeat, which kept too little of it"
                raise RefusedError(what, where="like", fix="Run its job file: drumbeat run job.yml") from None
        parent = self._loop.record(job.parent)
        whole = self._of(parent)
        if parent.job.pipeline is None:
            return whole
        written = cast("PipelineJob", jobfile.from_dict(whole.document, whole.source))
        graph = expand(written, parent.job.name)
        path = next(one.path for one in parent.job.pipeline.steps if step_name(parent.job.name, one.path) == job.name)
        return step_request(whole, graph, parent.job.name, path, dict.fromkeys(graph.step(path).after, ""))


def _code_notes(request: JobRequest, earlier: JobRequest) -> tuple[str, ...]:
    is_other = request.code is not None and request.code != earlier.code
    return (f"its code is another snapshot than that of {request.like}",) if is_other else ()


def _unmoved(places: Mapping[str, str], before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, str]:
    """Returns the places of the inputs that have the same path in both documents."""
    paths = [
        {name: _table(value).get("path") for name, value in _table(document.get("inputs")).items()}
        for document in (before, now)
    ]
    return {name: place for name, place in places.items() if paths[0].get(name) == paths[1].get(name)}


def _unsent(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[Problem]:
    """Yields the local paths of a document that its earlier version doesn't have at the same place."""
    earlier = dict(_local_paths(before))
    for key, path in _local_paths(now):
        if earlier.get(key) != path:
            yield Problem(f"the files of {path} were not sent; a job that is run again has those of before", key, _FIX)


def _local_paths(document: Mapping[str, Any], at: str = "") -> Iterator[tuple[str, str]]:
    """Yields the local paths of code, components, environments and inputs, by their keys, also of steps and trials."""
    for key in ("code", "component", "trial"):
        value = document.get(key)
        if isinstance(value, str) and local_path(value) is not None:
            yield f"{at}{key}", value
    for key, value in _environment_files(document).items():
        yield f"{at}environment.{key}", value
    for name, value in _table(document.get("inputs")).items():
        path = _table(value).get("path")
        if isinstance(path, str) and "${{" not in path and local_path(path) is not None:
            yield f"{at}inputs.{name}.path", path
    yield from _local_paths(_table(document.get("trial")), f"{at}trial.") if document.get("trial") else ()
    for name, step in _table(document.get("jobs")).items():
        yield from _local_paths(_table(step), f"{at}jobs.{name}.")


def _environment_files(document: Mapping[str, Any]) -> dict[str, str]:
    """Returns what an environment says of its files, by key."""
    environment = _table(document.get("environment"))
    conda, build = environment.get("conda_file"), _table(environment.get("build"))
    return {
        **({"conda_file": conda} if isinstance(conda, str) else {}),
        **({"build": str(sorted(build.items()))} if build else {}),
    }


def _table(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
