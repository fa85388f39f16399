"""Runs: create, write, read, search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from drumbeat.model import mlflow_runs, mlflow_writes
from drumbeat.model.errors import ConflictError, NotFoundError
from drumbeat.model.metrics import JsonObject, Run, Series
from drumbeat.model.mlflow_calls import missing
from drumbeat.model.mlflow_runs import run_info, run_view
from drumbeat.model.mlflow_writes import MlflowWrite, WriteRule
from drumbeat.server.metrics.metric_records import RunSearch
from drumbeat.server.metrics.mlflow import logged_models
from drumbeat.server.metrics.mlflow.experiments import active_experiment, artifact_location, searched_experiments
from drumbeat.server.metrics.mlflow.filter_parsing import parse_view, run_comparisons, run_orders
from drumbeat.server.metrics.mlflow.limits import check_name
from drumbeat.server.metrics.mlflow.request import Call

MAX_RESULTS = 50_000


def create(call: Call) -> JsonObject:
    """Answers runs/create."""
    experiment = active_experiment(call, call.text_or("experiment_id") or "0")
    record = mlflow_writes.created(_parse_write(call), experiment.id, call.scope.job if call.scope else "")
    call.store.write([record])
    return {"run": view(call, call.find_run(record.run))}


def get(call: Call) -> JsonObject:
    """Answers runs/get."""
    return {"run": view(call, call.run())}


def update(call: Call) -> JsonObject:
    """Answers runs/update."""
    run = _keep(call, call.active_run, mlflow_writes.update)
    changed = call.find_run(run.id)
    return {"run_info": run_info(changed, artifact_uri(call, changed))}


def delete(call: Call) -> JsonObject:
    """Answers runs/delete."""
    _keep(call, call.own_run, mlflow_writes.delete)
    return {}


def restore(call: Call) -> JsonObject:
    """Answers runs/restore."""
    _keep(call, call.own_run, mlflow_writes.restore)
    return {}


def delete_tag(call: Call) -> JsonObject:
    """Answers runs/delete-tag."""
    run, key = call.active_run(), call.text("key")
    if key not in run.tags:
        raise missing(f"No tag with name: {key} in run with id {run.id}")
    _keep(call, lambda: run, mlflow_writes.delete_tag)
    return {}


def writer(rule: WriteRule) -> Callable[[Call], JsonObject]:
    """Returns the handler of a route that writes to an active run and has an empty response."""

    def write(call: Call) -> JsonObject:
        _keep(call, call.active_run, rule)
        return {}

    return write


def _keep(call: Call, find: Callable[[], Run], rule: WriteRule) -> Run:
    """Writes to the run that `find` returns. Refused parts raise an error after everything else was written."""
    while True:
        run = find()
        written = rule(_parse_write(call), run)
        call.on_write(run, written.records)
        try:
            call.store.write(written.records)
        except ConflictError:  # Another client has logged the parameter since the run was read.
            continue
        logged_models.add_metrics(call, run.id, written.metrics)
        written.require_all()
        return run


def _parse_write(call: Call) -> MlflowWrite:
    def check_metric(metric: JsonObject) -> None:
        logged_models.check_models(call, [metric])

    return MlflowWrite(call.arguments, call.rank, check_name, check_metric, call.now_ms)


def search(call: Call) -> JsonObject:
    """Answers runs/search."""
    experiments = searched_experiments(call)
    if not experiments:
        return {"runs": []}
    page = call.store.search_runs(
        RunSearch(
            experiments,
            run_comparisons(call.text_or("filter")),
            run_orders(call.texts("order_by")),
            parse_view(call, "run_view_type"),
            call.limit(1000, MAX_RESULTS),
            call.text_or("page_token"),
        )
    )
    answer: JsonObject = {"runs": [view(call, run) for run in page.runs]}
    return answer | ({"next_page_token": page.token} if page.token else {})


def view(call: Call, run: Run) -> JsonObject:
    """Returns MLflow's `Run`."""
    seen = _seen_by(call, run)
    return run_view(seen, [series.last for series in seen.metrics], artifact_uri(call, run))


def _seen_by(call: Call, run: Run) -> Run:
    """Returns a run as the calling rank sees it: its own series if it has any, else those of rank 0."""
    if call.rank == 0:
        return run
    own = {series.name: series for series in call.store.series(run.id) if series.rank == call.rank}
    series = {one.name: one for one in run.metrics} | own
    return replace(run, metrics=tuple(series.values()))


def artifact_uri(call: Call, run: Run) -> str:
    """Returns the location for a run's artifacts: on this server, or that of its experiment."""
    location = "" if run.job else _location(call, run.experiment)
    return f"{location}/{run.id}/artifacts" if location else mlflow_runs.artifact_uri(run.id)


def _location(call: Call, experiment: str) -> str:
    try:
        return artifact_location(call.store.experiment(experiment))
    except NotFoundError:
        return ""


def visible_rank(series: Sequence[Series], name: str, rank: int) -> int:
    """Returns the rank whose series a rank reads under a name: its own, or else rank 0."""
    return rank if any(one.name == name and one.rank == rank for one in series) else 0
