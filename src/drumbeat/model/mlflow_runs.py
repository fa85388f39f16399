"""Runs as MLflow's clients read them, from the server or from a node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from drumbeat.model.metrics import JsonObject, Point, Run, value_to_json
from drumbeat.model.mlflow_writes import RUN_NAME


def run_view(run: Run, points: Iterable[Point], artifact_uri: str) -> JsonObject:
    """Returns MLflow's `Run`. points: the last of each metric."""
    return {
        "info": run_info(run, artifact_uri),
        "data": {
            "metrics": [metric_view(point) for point in points],
            "params": listed(run.params),
            "tags": listed({RUN_NAME: run.name, **run.tags}),
        },
        "inputs": {"dataset_inputs": list(run.datasets), "model_inputs": list(run.model_inputs)},
        "outputs": {"model_outputs": list(run.model_outputs)},
    }


def run_info(run: Run, artifact_uri: str) -> JsonObject:
    """Returns MLflow's `RunInfo`."""
    info: JsonObject = {
        "run_id": run.id,
        "run_uuid": run.id,
        "run_name": run.name,
        "experiment_id": run.experiment,
        "user_id": run.user,
        "status": run.status,
        "start_time": run.start_ms,
        "artifact_uri": artifact_uri,
        "lifecycle_stage": "active" if run.deleted_ms is None else "deleted",
    }
    return info if run.end_ms is None else {**info, "end_time": run.end_ms}


def metric_view(point: Point) -> JsonObject:
    """Returns MLflow's `Metric`."""
    return {"key": point.name, "value": value_to_json(point.value), "timestamp": point.at_ms, "step": point.step}


def artifact_uri(run: str) -> str:
    """Returns the address of a run's artifacts, which MLflow's clients resolve against their tracking address."""
    return f"mlflow-artifacts:/{run}/artifacts"


def listed(table: Mapping[str, object]) -> list[JsonObject]:
    """Returns a table as a list of objects with a key and a value."""
    return [{"key": key, "value": value} for key, value in sorted(table.items())]
