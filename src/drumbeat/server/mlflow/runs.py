"""Runs: created, changed, searched, and what is logged to them beside metrics."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from drumbeat.ports.metrics import Run, RunSearch, Series
from drumbeat.protocol.errors import NotFoundError
from drumbeat.protocol.metric_lines import storable_datasets, storable_objects
from drumbeat.protocol.metrics import (
    RUN_STATUSES,
    InputsLogged,
    JsonObject,
    MetricRecord,
    OutputsLogged,
    RunCreated,
    RunDeleted,
    RunRestored,
    RunUpdated,
    TagDeleted,
    TagsSet,
    value_to_json,
)
from drumbeat.protocol.mlflow_limits import MAX_TAG_VALUE
from drumbeat.server.mlflow.errors import invalid, missing
from drumbeat.server.mlflow.experiments import active_experiment, location_of, searched_experiments
from drumbeat.server.mlflow.filter_parsing import run_comparisons, run_orders, view_of
from drumbeat.server.mlflow.limits import check_pairs
from drumbeat.server.mlflow.request import Call, listed

RUN_NAME = "mlflow.runName"
MODEL_HISTORY = "mlflow.log-model.history"
MAX_RESULTS = 50_000
_STATUS_NUMBERS = {str(n): name for n, name in enumerate(("RUNNING", "SCHEDULED", "FINISHED", "FAILED", "KILLED"), 1)}
_RUN_ID = re.compile(r"[a-zA-Z0-9][\w\-]{0,255}")


def create(call: Call) -> JsonObject:
    """Answers runs/create."""
    experiment = active_experiment(call, call.text_or("experiment_id") or "0")
    run, tags = secrets.token_hex(16), call.tags()
    name = call.text_or("run_name") or tags.get(RUN_NAME) or f"run-{run[:8]}"
    tags = {**tags, RUN_NAME: name}
    check_pairs("tag", tags, MAX_TAG_VALUE)
    start_ms = call.number("start_time") or call.now_ms
    user = call.text_or("user_id") or tags.get("mlflow.user", "")
    job = call.scope.job if call.scope else ""
    call.store.write([RunCreated(run, experiment.id, name, start_ms, user, job, tags)])
    return {"run": view(call, call.run_of(run))}


def get(call: Call) -> JsonObject:
    """Answers runs/get."""
    return {"run": view(call, call.run())}


def update(call: Call) -> JsonObject:
    """Answers runs/update."""
    run, name, end_ms = call.active_run(), call.text_or("run_name"), call.number("end_time")
    status = call.text_or("status")
    status = _STATUS_NUMBERS.get(status, status)
    if status and status not in RUN_STATUSES:
        raise invalid(f"Invalid run status '{status[:80]}': expected one of {', '.join(RUN_STATUSES)}.")
    records: list[MetricRecord] = [RunUpdated(run.id, status, end_ms, name)]  # pyright: ignore[reportArgumentType]
    if name:
        records.append(TagsSet(run.id, {RUN_NAME: name}))
    call.store.write(records)
    return {"run_info": view(call, call.run_of(run.id))["info"]}


def delete(call: Call) -> JsonObject:
    """Answers runs/delete."""
    call.store.write([RunDeleted(call.own_run().id, call.now_ms)])
    return {}


def restore(call: Call) -> JsonObject:
    """Answers runs/restore."""
    call.store.write([RunRestored(call.own_run().id)])
    return {}


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
            view_of(call, "run_view_type"),
            call.limit(1000, MAX_RESULTS),
            call.text_or("page_token"),
        )
    )
    found: JsonObject = {"runs": [view(call, run) for run in page.runs]}
    return found | ({"next_page_token": page.token} if page.token else {})


def set_tag(call: Call) -> JsonObject:
    """Answers runs/set-tag."""
    call.store.write(tag_records(call.active_run().id, {call.text("key"): call.text_or("value")}))
    return {}


def tag_records(run: str, tags: dict[str, str]) -> list[MetricRecord]:
    """Returns the records that set tags; the tag with a run's name names the run. Raises MlflowRefusal."""
    check_pairs("tag", tags, MAX_TAG_VALUE)
    records: list[MetricRecord] = [TagsSet(run, tags)]
    return records + ([RunUpdated(run, name=tags[RUN_NAME])] if tags.get(RUN_NAME) else [])


def delete_tag(call: Call) -> JsonObject:
    """Answers runs/delete-tag."""
    run, key = call.active_run(), call.text("key")
    if key not in run.tags:
        raise missing(f"No tag with name: {key} in run with id {run.id}")
    call.store.write([TagDeleted(run.id, key)])
    return {}


def log_model(call: Call) -> JsonObject:
    """Answers runs/log-model: adds to the tag that lists a run's models, as clients of version 2 read it."""
    run = call.active_run()
    try:
        model = json.loads(call.text("model_json"))
        models = json.loads(run.tags.get(MODEL_HISTORY, "[]"))
    except ValueError:
        raise invalid("Malformed model info. 'model_json' is not valid JSON.") from None
    call.store.write([TagsSet(run.id, {MODEL_HISTORY: json.dumps([*models, model])})])
    return {}


def log_inputs(call: Call) -> JsonObject:
    """Answers runs/log-inputs."""
    try:
        datasets = storable_datasets(call.objects("datasets"))
        models = storable_objects(call.objects("models"), "models")
    except ValueError as error:
        raise invalid(str(error)) from None
    if not all(one["dataset"].get("name") and one["dataset"].get("digest") for one in datasets):
        raise invalid("Each of 'datasets' needs a dataset with a name and a digest.")
    call.store.write([InputsLogged(call.active_run().id, datasets, models)])
    return {}


def log_outputs(call: Call) -> JsonObject:
    """Answers runs/outputs."""
    try:
        models = storable_objects(call.objects("models"), "models")
    except ValueError as error:
        raise invalid(str(error)) from None
    call.store.write([OutputsLogged(call.active_run().id, models)])
    return {}


def view(call: Call, run: Run) -> JsonObject:
    """Returns MLflow's `Run`."""
    seen = _seen_by(call, run)
    return {
        "info": _info(call, seen),
        "data": {
            "metrics": [_metric(series) for series in seen.metrics],
            "params": listed(seen.params),
            "tags": listed({RUN_NAME: seen.name, **seen.tags}),
        },
        "inputs": {"dataset_inputs": list(seen.datasets), "model_inputs": list(seen.model_inputs)},
        "outputs": {"model_outputs": list(seen.model_outputs)},
    }


def _seen_by(call: Call, run: Run) -> Run:
    """Returns a run as the calling rank sees it: its own series where it has any, else those of rank 0."""
    if call.rank == 0:
        return run
    own = {series.name: series for series in call.store.series(run.id) if series.rank == call.rank}
    series = {one.name: one for one in run.metrics} | own
    return replace(run, metrics=tuple(series.values()))


def _info(call: Call, run: Run) -> JsonObject:
    info: dict[str, Any] = {
        "run_id": run.id,
        "run_uuid": run.id,
        "run_name": run.name,
        "experiment_id": run.experiment,
        "user_id": run.user,
        "status": run.status,
        "start_time": run.start_ms,
        "artifact_uri": artifact_uri(call, run),
        "lifecycle_stage": "active" if run.deleted_ms is None else "deleted",
    }
    return info if run.end_ms is None else {**info, "end_time": run.end_ms}


def artifact_uri(call: Call, run: Run) -> str:
    """Returns where clients put the artifacts of a run: on this server, or where its experiment says."""
    location = "" if run.job else _location(call, run.experiment)
    return f"{location}/{run.id}/artifacts" if location else f"mlflow-artifacts:/{run.id}/artifacts"


def _location(call: Call, experiment: str) -> str:
    try:
        return location_of(call.store.experiment(experiment))
    except NotFoundError:
        return ""


def _metric(series: Series) -> JsonObject:
    point = series.last
    return {"key": series.name, "value": value_to_json(point.value), "timestamp": point.at_ms, "step": point.step}


def is_run_id(text: str) -> bool:
    """Whether a text may be the id of a run."""
    return bool(_RUN_ID.fullmatch(text))


def series_of(series: Sequence[Series], name: str, rank: int) -> int:
    """Returns the rank whose series a rank reads under a name: its own, or else that of rank 0."""
    return rank if any(one.name == name and one.rank == rank for one in series) else 0
