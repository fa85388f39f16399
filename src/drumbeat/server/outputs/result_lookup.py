"""Finds the job that has the outputs: for a sweep its best trial, for a pipeline its steps."""

from __future__ import annotations

from dataclasses import replace

from drumbeat.core.child_jobs import step_name, trial_name
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.lifecycle.sweep import leading_trial
from drumbeat.core.planning.inputs import JobOutputs
from drumbeat.model.errors import NotFoundError, RefusedError
from drumbeat.model.states import State
from drumbeat.server.database import SqlStore
from drumbeat.server.home_folder import FolderArtifacts
from drumbeat.server.home_folder.stored_files import StoredFile


def result_job(job: Job) -> str:
    """Returns the job that has the outputs: the best trial of a sweep, else the job itself. Raises RefusedError."""
    if job.sweep is None:
        return job.name
    best = leading_trial(job.sweep)
    if best is None:
        what = f"sweep {job.name} has no best trial: no trial reported `{job.sweep.metric}`"
        raise RefusedError(what, fix="Rank 0 of a trial must log the primary metric under exactly this name.")
    return trial_name(job.name, best.number)


def step_result(store: SqlStore, pipeline: Job, path: str) -> str:
    """Returns the job that has the outputs of a step. Raises NotFoundError, RefusedError."""
    name = pipeline.pipeline.result_job(pipeline.name, path) if pipeline.pipeline else step_name(pipeline.name, path)
    return result_job(store.load(name).job)


def known_outputs(store: SqlStore, name: str) -> JobOutputs:
    """Returns the known outputs of a job. Raises NotFoundError."""
    job = store.load(name).job
    ended, is_completed = job.state.is_terminal, job.state is State.COMPLETED
    if job.pipeline is not None:
        return JobOutputs(_types(job), ended, is_completed, _of_pipeline(store, job))
    if job.sweep is not None:
        return _of_sweep(store, job, has_ended=ended, is_completed=is_completed)
    return JobOutputs(_types(job), ended, is_completed)


def _types(job: Job) -> dict[str, str]:
    return {one.name: one.type for one in job.plan.outputs}


def _of_pipeline(store: SqlStore, job: Job) -> dict[str, tuple[str, str]]:
    """Returns the type and place of each output that a step has produced."""
    sources: dict[str, tuple[str, str]] = {}
    for one in job.pipeline.outputs if job.pipeline else ():
        step = job.pipeline.step(one.step) if job.pipeline else None
        if step is not None and step.is_done:
            try:
                sources[one.name] = step_result(store, job, one.step), one.output
            except (NotFoundError, RefusedError):
                continue
    return sources


def _of_sweep(store: SqlStore, job: Job, *, has_ended: bool, is_completed: bool) -> JobOutputs:
    try:
        best = store.load(result_job(job)).job
    except (NotFoundError, RefusedError):
        return JobOutputs({}, has_ended, is_completed)
    types = _types(best)
    return JobOutputs(types, has_ended, is_completed, {name: (best.name, name) for name in types})


# --- files ------------------------------------------------------------------------------------------------------
def output_files(store: SqlStore, artifacts: FolderArtifacts, job: Job) -> list[StoredFile]:
    """Returns the files of a pipeline's outputs, under their names in the pipeline."""
    files: list[StoredFile] = []
    for name, (source, output) in _of_pipeline(store, job).items():
        start = f"outputs/{output}"
        files += [
            replace(file, path=f"outputs/{name}{file.path[len(start) :]}")
            for file in artifacts.files(source)
            if file.path == start or file.path.startswith(f"{start}/")
        ]
    return files


def place_of_file(store: SqlStore, job: Job, path: str) -> tuple[str, str]:
    """Returns the job that has a file, and the file's path there. Outputs of a pipeline are its steps'."""
    parts = path.split("/")
    if job.pipeline is not None and len(parts) > 1 and parts[0] == "outputs":
        sources = _of_pipeline(store, job)
        if parts[1] in sources:
            source, output = sources[parts[1]]
            return source, "/".join(("outputs", output, *parts[2:]))
    return job.name, path
