"""What must hold of pipelines after every step of a simulation."""

from __future__ import annotations

from drumbeat.core.child_jobs import PipelineProgress, StepProgress, step_name
from drumbeat.core.lifecycle.job import Job
from drumbeat.model.states import State
from tests.support.simulation.backing import Sight
from tests.support.simulation.violation import require


def check(sight: Sight) -> None:
    """Checks every pipeline. Raises Violation."""
    for record in sight.records.values():
        if record.job.pipeline:
            _check_pipeline(sight, record.job, record.job.pipeline)


def check_step(job: Job, pipeline: Job) -> None:
    """Checks that the parent of a step's job knows it. Raises Violation."""
    steps = pipeline.pipeline.steps if pipeline.pipeline else ()
    names = [step_name(pipeline.name, one.path) for one in steps if one.is_submitted]
    require(job.name in names, f"{pipeline.name} does not know {job.name}")


def _check_pipeline(sight: Sight, pipeline: Job, progress: PipelineProgress) -> None:
    jobs = [record.job for record in sight.records.values() if record.job.parent == pipeline.name]
    active = [job.name for job in jobs if not job.state.is_terminal]
    require(not (pipeline.state.is_terminal and active), f"{pipeline.name} has ended, and {active} have not")
    done = {one.path for one in progress.steps if one.is_done}
    for step in progress.steps:
        if step.is_submitted:
            require(
                done.issuperset(step.after), f"step {step.path} of {pipeline.name} ran before its inputs were there"
            )
        _check_step(sight, pipeline, step)


def _check_step(sight: Sight, pipeline: Job, step: StepProgress) -> None:
    record = sight.records.get(step_name(pipeline.name, step.path))
    what = f"step {step.path} of {pipeline.name}"
    if step.reused:
        source = sight.records.get(step.reused)
        require(record is None, f"{what} is reused, and has a job")
        require(source is None or source.job.state is State.COMPLETED, f"{what} reuses a job that did not complete")
        return
    require(not (step.skipped and record), f"{what} is never run, and has a job")
    if step.has_ended and record is not None:
        require(record.job.state is step.state, f"{what} is {record.job.state}, believed {step.state}")
