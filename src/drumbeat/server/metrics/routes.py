"""Routes of metrics, comparisons of jobs, and experiments."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Literal

from fastapi import Query

from drumbeat.core.child_jobs import trial_name
from drumbeat.core.curve_thinning import MIN_POINTS
from drumbeat.model.api.metrics import (
    ComparisonView,
    CurveView,
    ExperimentView,
    HistoryView,
    JobCurveView,
    MetricsView,
    NestedRunView,
)
from drumbeat.model.api.overview import OverviewView
from drumbeat.model.api.requests import NoteChange
from drumbeat.model.api.resources import ResourcesView
from drumbeat.model.errors import NotFoundError
from drumbeat.model.metrics import Point, Run, run_id, value_to_json
from drumbeat.model.primary_metrics import Goal, PrimaryMetric, goal_of
from drumbeat.server.context import ControlOf, PrincipalOf, current
from drumbeat.server.control import Control
from drumbeat.server.jobs.job_filter import JobFilter
from drumbeat.server.metrics.experiments import MAX_COMPARED, ExperimentUsage
from drumbeat.server.metrics.metric_records import Experiment, View
from drumbeat.server.metrics.metrics import STATUS_OF
from drumbeat.server.metrics.resources import read_resources
from drumbeat.server.metrics.series_views import point_view, series_view, time_of
from drumbeat.server.routing import new_router

router = new_router("/api/v1", tags=["metrics"])

VIEWS: dict[str, View] = {"false": "active", "true": "deleted", "all": "all"}
MAX_POINTS = 20_000
"""Maximum number of points in a curve or page."""
MAX_PARTS = 500
MAX_JOBS = 1000
"""Maximum number of jobs in a request for curves."""
MIN_SHARE = 20
"""Minimum number of points of each curve, regardless of the total."""
CURVES_METRIC = "When absent, the primary metric of each job; of the trials of `parent`, the metric of the sweep."
MAX_TOTAL = f"Points of all curves together, of which each curve gets an equal share, at least {MIN_SHARE}."

COMPARED = f"2 to {MAX_COMPARED} jobs."

Rank = Annotated[int | None, Query(description="Only this rank; -1 is node 0 itself, -2 node 1. All when absent.")]
Name = Annotated[str, Query(description="The experiment's current or earlier name.")]


@router.get("/jobs/{name}/metrics")
def show_metrics(name: str, control: ControlOf, rank: Rank = None) -> MetricsView:
    """Returns all metrics of a job with last, lowest and highest value. A waiting job has none, and is `SCHEDULED`."""
    run = control.metrics.begun_run(name)
    if run is None:
        job = control.loop.record(name).job
        title = control.experiments.title(job.plan.experiment)
        return MetricsView(name, run_id(name), title, STATUS_OF.get(job.state, "SCHEDULED"))
    chosen = [one for one in control.metrics.store.series(run.id) if rank in (None, one.rank)]
    experiment = control.metrics.store.experiment(run.experiment).name
    params, tags = dict(run.params), dict(run.tags)
    nested = tuple(_nested_view(one, run.id) for one in control.metrics.nested_runs(name))
    return MetricsView(name, run.id, experiment, run.status, tuple(map(series_view, chosen)), params, tags, nested)


@router.get("/jobs/{name}/overview")
def show_overview(name: str, control: ControlOf) -> OverviewView:
    """Returns a job at a glance: how good it is among the jobs of its experiment, and what it took."""
    return control.overviews.of(name)


@router.get("/jobs/{name}/resources")
def show_resources(
    name: str,
    control: ControlOf,
    max_parts: Annotated[int, Query(ge=1, le=MAX_PARTS, description="Parts of the job's time.")] = 120,
) -> ResourcesView:
    """Returns what the nodes and ranks of a job use over time, how well they use it, and who is idle."""
    return read_resources(control.loop, control.metrics, name, max_parts)


@router.get("/jobs/{name}/metrics/curves")
def show_curves(
    name: str,
    control: ControlOf,
    metric: Annotated[list[str], Query(description="Names of metrics; all when absent.")] = [],  # noqa: B006 - FastAPI copies it
    rank: Rank = None,
    max_points: Annotated[int, Query(ge=MIN_POINTS, le=MAX_POINTS)] = 1000,
) -> list[CurveView]:
    """Returns curves of metrics, each with at most `max_points` logged points.

    These are the first and the last point, and the lowest and highest point of each of equally long parts.
    """
    if control.metrics.begun_run(name) is None:
        return []
    run, store = run_id(name), control.metrics.store
    chosen = [one for one in store.series(run) if (not metric or one.name in metric) and rank in (None, one.rank)]
    return [
        CurveView(one.name, one.rank, tuple(map(point_view, store.curve(run, one.name, one.rank, max_points))))
        for one in chosen
    ]


@router.get("/jobs/{name}/metrics/history")
def show_history(
    name: str,
    metric: str,
    control: ControlOf,
    rank: int = 0,
    after: Annotated[int, Query(ge=0, description="`after` of the previous page.")] = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_POINTS)] = 10_000,
) -> HistoryView:
    """Returns a page of all points of a metric of one rank, in the order of arrival."""
    control.loop.record(name)
    page = control.metrics.store.history(run_id(name), metric, rank, after, limit)
    return HistoryView(metric, rank, tuple(map(point_view, page.points)), page.after, page.is_last)


@router.get("/curves")
def show_curves_of_jobs(
    *,
    control: ControlOf,
    job: Annotated[list[str], Query(max_length=MAX_JOBS)] = [],  # noqa: B006 - FastAPI copies it
    parent: Annotated[str, Query(description="Every trial of this sweep, or step of this pipeline, too.")] = "",
    metric: Annotated[str, Query(description=CURVES_METRIC)] = "",
    max_points: Annotated[int, Query(ge=MIN_POINTS, le=1000)] = 60,
    max_total: Annotated[int | None, Query(ge=1, description=MAX_TOTAL)] = None,
) -> list[JobCurveView]:
    """Returns a curve of rank 0 of each job that has logged the metric."""
    children, own_metric = _children(control, parent) if parent else ([], "")
    metric = metric or own_metric
    names = list(dict.fromkeys([*job, *children]))
    if max_total is not None:
        max_points = min(max_points, max(max_total // max(len(names), 1), MIN_SHARE))
    chosen = [(name, metric) for name in names] if metric else _primary_names(control, names)
    if control.metrics.is_empty:
        return []
    curves: dict[tuple[str, str], list[Point]] = {}
    for wanted in {wanted for _, wanted in chosen}:
        runs = {run_id(name): name for name, own in chosen if own == wanted}
        by_run = control.metrics.store.curves(list(runs), wanted, max_points)
        curves |= {(runs[run], wanted): points for run, points in by_run.items()}
    return [_curve(*key, curves[key]) for key in chosen if key in curves]


def _children(control: Control, parent: str) -> tuple[list[str], str]:
    """Returns the children of a job, and the metric of a sweep; "" = none."""
    with suppress(NotFoundError):
        sweep = current(control, parent).job.sweep
        if sweep is not None:  # The names of trials follow from their numbers, so their records needn't be read.
            names = [trial_name(parent, one.number) for one in sweep.trials if one.state is not None]
            return names[:MAX_JOBS], sweep.metric
    records = control.store.jobs(JobFilter(is_archived=None, limit=MAX_JOBS, parent=parent))
    return [record.job.name for record in reversed(records)], ""


def _primary_names(control: Control, names: list[str]) -> list[tuple[str, str]]:
    highlights = control.metrics.highlights(names)
    return [(name, one.primary.series.name) for name, one in highlights.items() if one.primary]


def _curve(name: str, metric: str, points: list[Point]) -> JobCurveView:
    values = tuple(value_to_json(point.value) for point in points)
    return JobCurveView(name, metric, 0, tuple(point.step for point in points), values)


@router.get("/compare")
def compare_jobs(job: Annotated[list[str], Query(description=COMPARED)], control: ControlOf) -> ComparisonView:
    """Compares jobs: their submissions and outcomes."""
    return control.experiments.compare(job)


@router.get("/experiments")
def list_experiments(control: ControlOf, archived: Literal["false", "true", "all"] = "false") -> list[ExperimentView]:
    """Lists experiments, newest first."""
    return [experiment_view(*one) for one in control.experiments.all(VIEWS[archived])]


@router.get("/experiments/named")
def show_experiment(name: Name, control: ControlOf) -> ExperimentView:
    """Returns one experiment."""
    return experiment_view(*control.experiments.named(name))


@router.post("/experiments/rename")
def rename_experiment(
    name: Name, to: Annotated[str, Query(min_length=1, max_length=250)], control: ControlOf, principal: PrincipalOf
) -> ExperimentView:
    """Renames an experiment. Jobs that are submitted with the earlier name still belong to it."""
    control.job_users.require_own_experiment(principal, name)
    return experiment_view(*control.experiments.rename(name, to))


@router.post("/experiments/archive")
def archive_experiment(name: Name, control: ControlOf, principal: PrincipalOf) -> ExperimentView:
    """Hides an experiment from lists, without deleting anything."""
    control.job_users.require_own_experiment(principal, name)
    return experiment_view(*control.experiments.archive(name, is_archived=True))


@router.post("/experiments/restore")
def restore_experiment(name: Name, control: ControlOf, principal: PrincipalOf) -> ExperimentView:
    """Shows an archived experiment again."""
    control.job_users.require_own_experiment(principal, name)
    return experiment_view(*control.experiments.archive(name, is_archived=False))


@router.put("/experiments/note")
def write_note(name: Name, body: NoteChange, control: ControlOf, principal: PrincipalOf) -> ExperimentView:
    """Writes the note of an experiment, its tag `mlflow.note.content`. Idempotent."""
    control.job_users.require_own_experiment(principal, name)
    return experiment_view(*control.experiments.write_note(name, body.note, body.seen))


@router.put("/experiments/primary")
def set_primary_metric(
    *,
    name: Name,
    metric: Annotated[str, Query(min_length=1, max_length=500, description="As the jobs' scripts log it.")],
    goal: Annotated[Goal | None, Query(description="When absent, as the metric's name says.")] = None,
    control: ControlOf,
    principal: PrincipalOf,
) -> ExperimentView:
    """Names the metric that counts for all jobs of an experiment, before what each of them says."""
    control.job_users.require_own_experiment(principal, name)
    return experiment_view(*control.experiments.set_primary(name, PrimaryMetric(metric, goal or goal_of(metric))))


@router.delete("/experiments/primary")
def clear_primary_metric(name: Name, control: ControlOf, principal: PrincipalOf) -> ExperimentView:
    """Leaves it to each job of an experiment, and to the names of its metrics, which one counts. Idempotent."""
    control.job_users.require_own_experiment(principal, name)
    return experiment_view(*control.experiments.set_primary(name, None))


def _nested_view(run: Run, own: str) -> NestedRunView:
    parent = run.tags.get("mlflow.parentRunId", "") or own
    return NestedRunView(run.id, run.name, parent, run.status, tuple(map(series_view, run.metrics)))


def experiment_view(experiment: Experiment, usage: ExperimentUsage) -> ExperimentView:
    """Returns an experiment as the API shows it."""
    return ExperimentView(
        experiment.id,
        experiment.name,
        experiment.is_archived,
        time_of(experiment.created_ms),
        time_of(experiment.updated_ms),
        usage.jobs,
        usage.latest_at,
        dict(experiment.tags),
        usage.names,
    )
