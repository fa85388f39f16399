"""Routes of sweeps: their trials, and the best one."""

from __future__ import annotations

import math

from drumbeat.core.child_jobs import PipelineProgress, SweepProgress, TrialProgress, trial_name
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.lifecycle.sweep import leading_trial
from drumbeat.model.api.sweeps import SweepView, TrialView
from drumbeat.model.errors import NotFoundError
from drumbeat.model.plurals import name_some
from drumbeat.model.states import JobKind
from drumbeat.server.context import ControlOf, current
from drumbeat.server.routing import new_router

router = new_router("/api/v1", tags=["sweeps"])


@router.get("/sweeps/{name}")
def show_sweep(name: str, control: ControlOf) -> SweepView:
    """Returns a sweep with its trials, in the order of their numbers."""
    job = current(control, name).job
    if job.sweep is None:
        raise NotFoundError(f"job {name} is a {job.kind} job, not a sweep", fix=_sweeps_fix(job))
    return sweep_view(job, job.sweep)


def _sweeps_fix(job: Job) -> str:
    """Returns a fix that names the sweeps among the steps of a pipeline."""
    pipeline = job.pipeline or PipelineProgress()
    sweeps = [pipeline.result_job(job.name, step.path) for step in pipeline.steps if step.kind is JobKind.SWEEP]
    if sweeps:
        return f"Name the sweep among its steps: {name_some(sweeps)}."
    return f"See it: drumbeat show {job.name}"


def sweep_view(job: Job, progress: SweepProgress) -> SweepView:
    """Returns a stored sweep as the API shows it."""
    best = leading_trial(progress)
    return SweepView(
        name=job.name,
        state=job.state,
        sentence=job.sentence,
        goal=progress.goal,
        primary_metric=progress.metric,
        max_total_trials=progress.max_trials,
        max_concurrent_trials=progress.max_concurrent,
        trials=tuple(_trial(job.name, one) for one in progress.trials),
        best=best.number if best else None,
    )


def _trial(sweep: str, one: TrialProgress) -> TrialView:
    return TrialView(
        number=one.number,
        job=trial_name(sweep, one.number),
        state=one.state,
        sentence=one.stopped or one.sentence,
        parameters=one.values,
        value=_finite(one.best),
        last=_finite(one.last),
        reports=one.reports,
        run=one.run,
        stopped=one.stopped,
    )


def _finite(value: float | None) -> float | None:
    """Returns None for infinity and NaN, which JSON can't express."""
    return value if value is not None and math.isfinite(value) else None
