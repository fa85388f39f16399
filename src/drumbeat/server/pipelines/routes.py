"""Routes of pipelines: their steps, how these depend on each other, and which results were reused."""

from __future__ import annotations

import contextlib

from drumbeat.core.child_jobs import PipelineProgress, StepProgress, step_name
from drumbeat.core.lifecycle.job import Job
from drumbeat.model.api.pipelines import IS_REUSED, REUSED_RUN, EdgeView, PipelineOutputView, PipelineView, StepView
from drumbeat.model.errors import NotFoundError, RefusedError
from drumbeat.server.context import ControlOf, current
from drumbeat.server.control import Control
from drumbeat.server.outputs.result_lookup import result_job
from drumbeat.server.routing import new_router

router = new_router("/api/v1", tags=["pipelines"])


@router.get("/pipelines/{name}")
def show_pipeline(name: str, control: ControlOf) -> PipelineView:
    """Returns a pipeline with its steps in the order of their dependencies."""
    job = current(control, name).job
    if job.pipeline is None:
        raise NotFoundError(f"job {name} is a {job.kind} job, not a pipeline", fix=f"See it: drumbeat show {name}")
    return pipeline_view(job, job.pipeline, control)


def pipeline_view(job: Job, progress: PipelineProgress, control: Control) -> PipelineView:
    """Returns a stored pipeline as the API shows it."""
    results = {step.path: _result(job.name, step, control) for step in progress.steps}
    return PipelineView(
        name=job.name,
        state=job.state,
        sentence=job.sentence,
        steps=tuple(_step(job.name, step, results[step.path]) for step in progress.steps),
        edges=tuple(EdgeView(source, step.path) for step in progress.steps for source in step.after),
        outputs=tuple(
            PipelineOutputView(one.name, one.step, one.output, results[one.step]) for one in progress.outputs
        ),
    )


def _step(pipeline: str, step: StepProgress, result: str) -> StepView:
    return StepView(
        name=step.path,
        job=step_name(pipeline, step.path),
        type=step.kind,
        state=step.state,
        sentence=step.skipped or step.sentence,
        after=step.after,
        result=result,
        reused=step.reused,
        skipped=step.skipped,
        properties={IS_REUSED: "true", REUSED_RUN: step.reused} if step.reused else {},
    )


def _result(pipeline: str, step: StepProgress, control: Control) -> str:
    """Returns the job that has the outputs of a step, "" = none."""
    if not step.is_done:
        return ""
    with contextlib.suppress(NotFoundError, RefusedError):
        return result_job(control.loop.record(step.reused or step_name(pipeline, step.path)).job)
    return ""
