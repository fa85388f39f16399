"""What MLflow's clients write, as records: one function for each route of `/api/2.0/mlflow/`. Pure.

Field names are those of MLflow's `service.proto`; its clients send whole numbers as numbers or as texts.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, cast

from drumbeat.agent.metrics.mlflow_errors import INVALID, MlflowError
from drumbeat.agent.metrics.node_runs import NodeRuns
from drumbeat.protocol.metric_lines import pairs_from_wire, point_from_wire, record_from_wire, record_to_wire
from drumbeat.protocol.metrics import (
    JsonObject,
    MetricRecord,
    ParamsLogged,
    Point,
    PointsLogged,
    RunCreated,
    RunDeleted,
    RunRestored,
    TagDeleted,
    TagsSet,
    experiment_id,
    run_id,
)
from drumbeat.protocol.mlflow_limits import MAX_METRICS_IN_BATCH, MAX_PARAM_VALUE, MAX_TAG_VALUE

_MODEL_HISTORY = "mlflow.log-model.history"
_PRIMITIVES = (str, int, float)


@dataclass(frozen=True)
class Write:
    """One request to write, by a rank."""

    body: JsonObject
    rank: int
    runs: NodeRuns
    job: str
    experiment: str
    """Name of the job's experiment, which MLflow's own default stands for here."""

    @property
    def run(self) -> str:
        """The run that is written to. Raises MlflowError."""
        run = self.body.get("run_id") or self.body.get("run_uuid")
        if not isinstance(run, str):
            raise MlflowError(INVALID, "Missing value for required parameter 'run_id'.")
        return run

    def text(self, key: str, default: str | None = None) -> str:
        """Returns a text of the body. Raises MlflowError."""
        value = self.body.get(key, default)
        if not isinstance(value, _PRIMITIVES):
            raise MlflowError(INVALID, f"Missing value for required parameter '{key}'.")
        return str(value)

    def objects(self, key: str) -> list[JsonObject]:
        """Returns a list of objects of the body; [] if it has none. Raises MlflowError."""
        value = cast("object", self.body.get(key) or [])
        if isinstance(value, list) and all(isinstance(one, dict) for one in cast("list[object]", value)):
            return cast("list[JsonObject]", value)
        raise MlflowError(INVALID, f"Invalid value for parameter '{key}': expected a list of objects.")


@dataclass(frozen=True)
class WriteResult:
    """What a write adds to the spool. answer: None = the run's `RunInfo`, as it is afterwards."""

    records: tuple[MetricRecord, ...]
    answer: JsonObject | None = None
    refused: tuple[str, ...] = ()
    """Elements of the batch that aren't kept, a sentence for each. All others are, as MLflow allows."""


def create(write: Write) -> WriteResult:
    """Handles runs/create."""
    tags = _pairs(write.objects("tags"))
    start_ms = _whole(write.body.get("start_time", 0), "start_time") or time.time_ns() // 1_000_000
    run = secrets.token_hex(16)
    name = write.text("run_name", "") or tags.get("mlflow.runName", "") or f"run-{run[:8]}"
    record = RunCreated(run, _experiment(write), name, start_ms, write.text("user_id", ""), write.job, tags)
    return WriteResult((record_or_error(record_to_wire(record)),))


def _experiment(write: Write) -> str:
    named = write.text("experiment_id", "0")
    return experiment_id(write.experiment) if named == "0" else named


def update(write: Write) -> WriteResult:
    """Handles runs/update. Of the job's own run, rank 0 alone says how it is: other ranks may leave it earlier."""
    is_heard = write.rank == 0 or write.run != run_id(write.job)
    end = write.body.get("end_time") if is_heard else None
    record = record_or_error(
        {
            "kind": "run_updated",
            "run": write.run,
            "status": write.text("status", "") if is_heard else "",
            "end_ms": None if end is None else _whole(end, "end_time"),
            "name": write.text("run_name", ""),
        }
    )
    return WriteResult((record,))


def delete(write: Write) -> WriteResult:
    """Handles runs/delete."""
    return WriteResult((RunDeleted(write.run, time.time_ns() // 1_000_000),), {})


def restore(write: Write) -> WriteResult:
    """Handles runs/restore."""
    return WriteResult((RunRestored(write.run),), {})


def log_metric(write: Write) -> WriteResult:
    """Handles runs/log-metric."""
    return _batch(write, [write.body], [], [])


def log_parameter(write: Write) -> WriteResult:
    """Handles runs/log-parameter."""
    return _batch(write, [], [write.body], [])


def set_tag(write: Write) -> WriteResult:
    """Handles runs/set-tag."""
    return _batch(write, [], [], [write.body])


def delete_tag(write: Write) -> WriteResult:
    """Handles runs/delete-tag."""
    return WriteResult((TagDeleted(write.run, write.text("key")),), {})


def log_batch(write: Write) -> WriteResult:
    """Handles runs/log-batch."""
    metrics, params, tags = (write.objects(key) for key in ("metrics", "params", "tags"))
    if len(metrics) + len(params) + len(tags) > MAX_METRICS_IN_BATCH:
        raise MlflowError(INVALID, f"A batch logging request can contain at most {MAX_METRICS_IN_BATCH} entities.")
    return _batch(write, metrics, params, tags)


def log_model(write: Write) -> WriteResult:
    """Handles runs/log-model: adds to the tag that lists a run's models, as MLflow's own store does."""
    try:
        model = json.loads(write.text("model_json"))
        models = json.loads(write.runs.tag(write.run, _MODEL_HISTORY) or "[]")
    except ValueError:
        raise MlflowError(INVALID, "Malformed model info: 'model_json' is not valid JSON.") from None
    return WriteResult((TagsSet(write.run, {_MODEL_HISTORY: json.dumps([*models, model])}),), {})


def log_inputs(write: Write) -> WriteResult:
    """Handles runs/log-inputs."""
    datasets, models = write.objects("datasets"), write.objects("models")
    record = record_or_error({"kind": "inputs", "run": write.run, "datasets": datasets, "models": models})
    if not all(one["dataset"].get("name") and one["dataset"].get("digest") for one in datasets):
        raise MlflowError(INVALID, "Each of 'datasets' needs a dataset with a name and a digest.")
    return WriteResult((record,), {})


def log_outputs(write: Write) -> WriteResult:
    """Handles runs/outputs."""
    record = record_or_error({"kind": "outputs", "run": write.run, "models": write.objects("models")})
    return WriteResult((record,), {})


WRITES: dict[str, Callable[[Write], WriteResult]] = {
    "runs/create": create,
    "runs/update": update,
    "runs/delete": delete,
    "runs/restore": restore,
    "runs/log-metric": log_metric,
    "runs/log-batch": log_batch,
    "runs/log-parameter": log_parameter,
    "runs/set-tag": set_tag,
    "runs/delete-tag": delete_tag,
    "runs/log-model": log_model,
    "runs/log-inputs": log_inputs,
    "runs/outputs": log_outputs,
}
"""By route; all are called by POST."""


def points_of(run: str, rank: int, points: Iterable[Any]) -> tuple[list[MetricRecord], list[str]]:
    """Returns the record of points given as lists of name, value, step, at_ms, and sentences on those that aren't kept.

    No point at all makes no record.
    """
    kept: list[Point] = []
    refused: list[str] = []
    for one in points:
        try:
            kept.append(point_from_wire(one))
        except ValueError as error:
            refused.append(f"a metric is not kept: {one!r:.80}: {error}")
    return [PointsLogged(run, rank, tuple(kept))] if kept else [], refused


def _batch(write: Write, metrics: list[JsonObject], params: list[JsonObject], tags: list[JsonObject]) -> WriteResult:
    rank = write.runs.rank_in(write.run, write.rank)
    points = ([one.get("key"), one.get("value"), _number(one, "step"), _number(one, "timestamp")] for one in metrics)
    records, refused = points_of(write.run, rank, points)
    new: dict[str, str] = {}
    logged = write.runs.params(write.run)
    for key, value in _storable_pairs(params, "params", MAX_PARAM_VALUE, refused):
        first = logged.get(key, new.get(key, value))
        if first != value:
            refused.append(
                f"Changing param values is not allowed. Param with key='{key}' was already logged with "
                f"value='{first}' for run ID='{write.run}'. Attempted logging new value '{value}'."
            )
        elif key not in logged:
            new[key] = value
    new_tags = dict(_storable_pairs(tags, "tags", MAX_TAG_VALUE, refused))
    records += [ParamsLogged(write.run, new)] if new else []
    records += [TagsSet(write.run, new_tags)] if new_tags else []
    return WriteResult(tuple(records), {}, tuple(refused))


def _storable_pairs(
    objects: Iterable[JsonObject], kind: str, max_value: int, refused: list[str]
) -> Iterator[tuple[str, str]]:
    """Yields keys with values as they are kept; adds a sentence on each other object to `refused`."""
    for one in objects:
        try:
            pairs = {key: value[:max_value] for key, value in _pairs([one]).items()}
            yield from pairs_from_wire(pairs, kind).items()
        except (MlflowError, ValueError) as error:
            refused.append(str(error))


def _number(metric: JsonObject, key: str) -> object:
    """Returns a whole number, which MLflow's clients send as numbers or texts; anything else as it is."""
    value = metric.get(key, 0)
    try:
        return _whole(value, key)
    except MlflowError:
        return value


def _pairs(objects: Iterable[JsonObject]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for one in objects:
        key, value = one.get("key"), one.get("value", "")
        if not isinstance(key, str) or not isinstance(value, _PRIMITIVES):
            raise MlflowError(INVALID, f"Missing value for required parameter 'key': {one!r}"[:300])
        pairs[key] = str(value)
    return pairs


def _whole(value: object, key: str) -> int:
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        try:
            return int(value)
        except (ValueError, OverflowError):
            pass
    raise MlflowError(INVALID, f"Invalid value {value!r} for parameter '{key}': expected a whole number."[:300])


def record_or_error(wire: JsonObject) -> MetricRecord:
    """Returns the record with these values, as they are on the wire. Raises MlflowError, which names what is wrong."""
    try:
        return record_from_wire(wire)
    except ValueError as error:
        raise MlflowError(INVALID, str(error)) from None
