"""What MLflow's clients write to runs, as records: one function for each route below `/api/2.0/mlflow/`. Pure.

The endpoints on nodes and the server both write by these functions: a node where the server may be away, the server for
clients outside of jobs and for runs that a node doesn't know.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from drumbeat.model.metric_lines import storable_datasets, storable_name, storable_objects, storable_text
from drumbeat.model.metrics import (
    RUN_STATUSES,
    InputsLogged,
    JsonObject,
    MetricRecord,
    OutputsLogged,
    ParamsLogged,
    Point,
    PointsLogged,
    Run,
    RunCreated,
    RunDeleted,
    RunRestored,
    RunUpdated,
    TagDeleted,
    TagsSet,
    run_id,
    value_from_json,
)
from drumbeat.model.mlflow_calls import MlflowArguments, MlflowRefusal, invalid, pair, whole

T = TypeVar("T")

MAX_PARAM_VALUE, MAX_TAG_VALUE = 6000, 8000
"""Characters of a value; what is longer is cut, as MLflow cuts it."""
MAX_METRICS_IN_BATCH, MAX_PARAMS_IN_BATCH = 1000, 100

RUN_NAME = "mlflow.runName"
MODEL_HISTORY = "mlflow.log-model.history"
_STATUS_NUMBERS = {str(n): name for n, name in enumerate(RUN_STATUSES, 1)}
_MAX_SENTENCES = 10
"""Sentences of an answer on elements that aren't kept."""


def check_storable_name(_kind: str, name: str) -> None:
    """Refuses the name of a metric, parameter or tag that can't be kept."""
    try:
        storable_name(name, "key")
    except ValueError as error:
        raise invalid(str(error)) from None


@dataclass(frozen=True)
class MlflowWrite(MlflowArguments):
    """A request to write."""

    rank: int = 0
    """The rank under which its points are kept."""
    check_name: Callable[[str, str], None] = check_storable_name
    """Refuses the names of a kind that aren't taken. Nodes take all that can be kept, as `drumbeat.log` does."""
    check_metric: Callable[[JsonObject], None] = lambda _: None
    """Refuses a metric for what else it names."""
    now_ms: int = field(default_factory=lambda: time.time_ns() // 1_000_000)


@dataclass(frozen=True)
class WrittenRecords:
    """What a request adds to its run."""

    records: Sequence[MetricRecord]
    metrics: Sequence[JsonObject] = ()
    """Those of the request that are kept."""
    refused: Sequence[MlflowRefusal] = ()
    """Of elements that aren't kept. All others are, as MLflow allows."""

    def require_all(self) -> None:
        """Raises MlflowRefusal if elements aren't kept."""
        if not self.refused:
            return
        more = f"; and {len(self.refused) - _MAX_SENTENCES} more" if len(self.refused) > _MAX_SENTENCES else ""
        rest = " (everything else of this request is kept)" if self.records else ""
        what = "; ".join(one.message for one in self.refused[:_MAX_SENTENCES])
        raise MlflowRefusal(self.refused[0].code, what + more + rest)


WriteRule = Callable[[MlflowWrite, Run], WrittenRecords]
"""Reads what a request writes to a run. Raises MlflowRefusal where nothing of it is kept."""


def created(write: MlflowWrite, experiment: str, job: str) -> RunCreated:
    """Returns the new run of runs/create. experiment: its id. Raises MlflowRefusal."""
    tags = {key: value[:MAX_TAG_VALUE] for key, value in write.tags().items()}
    for key in tags:
        write.check_name("tag", key)
    run = secrets.token_hex(16)
    name = write.text_or("run_name") or tags.get(RUN_NAME) or f"run-{run[:8]}"
    user = write.text_or("user_id") or tags.get("mlflow.user", "")
    start_ms = write.number("start_time") or write.now_ms
    return RunCreated(run, experiment, name, start_ms, user, job, {**tags, RUN_NAME: name})


def update(write: MlflowWrite, run: Run) -> WrittenRecords:
    """Reads runs/update. Of a job's own run, rank 0 alone says how it is: other ranks may leave it earlier."""
    is_heard = write.rank == 0 or run.id != run_id(run.job)
    name, end_ms, status = write.text_or("run_name"), write.number("end_time"), write.text_or("status")
    status = _STATUS_NUMBERS.get(status, status)
    if status and status not in RUN_STATUSES:
        raise invalid(f"Invalid run status '{status[:80]}': expected one of {', '.join(RUN_STATUSES)}.")
    change = RunUpdated(run.id, status if is_heard else "", end_ms if is_heard else None, name)  # pyright: ignore[reportArgumentType]
    return WrittenRecords((change, *([TagsSet(run.id, {RUN_NAME: name})] if name else [])))


def delete(write: MlflowWrite, run: Run) -> WrittenRecords:
    """Reads runs/delete."""
    return WrittenRecords((RunDeleted(run.id, write.now_ms),))


def restore(_write: MlflowWrite, run: Run) -> WrittenRecords:
    """Reads runs/restore."""
    return WrittenRecords((RunRestored(run.id),))


def log_metric(write: MlflowWrite, run: Run) -> WrittenRecords:
    """Reads runs/log-metric."""
    return _elements(write, run, metrics=[write.arguments])


def log_parameter(write: MlflowWrite, run: Run) -> WrittenRecords:
    """Reads runs/log-parameter."""
    return _elements(write, run, params=[write.arguments])


def set_tag(write: MlflowWrite, run: Run) -> WrittenRecords:
    """Reads runs/set-tag."""
    return _elements(write, run, tags=[write.arguments])


def delete_tag(write: MlflowWrite, run: Run) -> WrittenRecords:
    """Reads runs/delete-tag."""
    return WrittenRecords((TagDeleted(run.id, write.text("key")),))


def log_batch(write: MlflowWrite, run: Run) -> WrittenRecords:
    """Reads runs/log-batch."""
    metrics, params, tags = write.objects("metrics"), write.objects("params"), write.objects("tags")
    _check_batch("metrics", len(metrics), MAX_METRICS_IN_BATCH)
    _check_batch("params", len(params), MAX_PARAMS_IN_BATCH)
    _check_batch("tags", len(tags), MAX_PARAMS_IN_BATCH)
    _check_batch("metrics, params, and tags", len(metrics) + len(params) + len(tags), MAX_METRICS_IN_BATCH)
    return _elements(write, run, metrics, params, tags)


def log_model(write: MlflowWrite, run: Run) -> WrittenRecords:
    """Reads runs/log-model: adds to the tag that lists a run's models, as MLflow's own store does."""
    try:
        model = json.loads(write.text("model_json"))
        models = json.loads(run.tags.get(MODEL_HISTORY, "[]"))
    except ValueError:
        raise invalid("Malformed model info. 'model_json' is not valid JSON.") from None
    return WrittenRecords((TagsSet(run.id, {MODEL_HISTORY: json.dumps([*models, model])}),))


def log_inputs(write: MlflowWrite, run: Run) -> WrittenRecords:
    """Reads runs/log-inputs."""
    try:
        datasets = storable_datasets(write.objects("datasets"))
        models = storable_objects(write.objects("models"), "models")
    except ValueError as error:
        raise invalid(str(error)) from None
    if not all(one["dataset"].get("name") and one["dataset"].get("digest") for one in datasets):
        raise invalid("Each of 'datasets' needs a dataset with a name and a digest.")
    return WrittenRecords((InputsLogged(run.id, datasets, models),))


def log_outputs(write: MlflowWrite, run: Run) -> WrittenRecords:
    """Reads runs/outputs."""
    try:
        models = storable_objects(write.objects("models"), "models")
    except ValueError as error:
        raise invalid(str(error)) from None
    return WrittenRecords((OutputsLogged(run.id, models),))


WRITE_RULES: dict[str, WriteRule] = {
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


def _elements(
    write: MlflowWrite,
    run: Run,
    metrics: Sequence[JsonObject] = (),
    params: Sequence[JsonObject] = (),
    tags: Sequence[JsonObject] = (),
) -> WrittenRecords:
    refused: list[MlflowRefusal] = []
    kept = list(_readable(metrics, lambda one: _point(write, one), refused))
    fresh: dict[str, str] = {}
    for _, (key, value) in _readable(params, lambda one: _named_pair(write, "param", one, MAX_PARAM_VALUE), refused):
        first = run.params.get(key, fresh.get(key, value))
        if first != value:
            refused.append(_changed_param(run.id, key, first, value))
        elif key not in run.params:
            fresh[key] = value
    pairs = _readable(tags, lambda one: _named_pair(write, "tag", one, MAX_TAG_VALUE), refused)
    new_tags = dict(pair for _, pair in pairs)
    records: list[MetricRecord] = []
    if kept:
        records.append(PointsLogged(run.id, write.rank, tuple(point for _, point in kept)))
    if fresh:
        records.append(ParamsLogged(run.id, fresh))
    if new_tags:
        records.append(TagsSet(run.id, new_tags))
    if name := new_tags.get(RUN_NAME):
        records.append(RunUpdated(run.id, name=name))
    return WrittenRecords(records, [one for one, _ in kept], refused)


def _readable(
    elements: Sequence[JsonObject], read: Callable[[JsonObject], T], refused: list[MlflowRefusal]
) -> Iterator[tuple[JsonObject, T]]:
    """Yields elements with what is read of them; adds the refusals of the others to `refused`."""
    for one in elements:
        try:
            yield one, read(one)
        except MlflowRefusal as refusal:
            refused.append(refusal)


def _point(write: MlflowWrite, metric: JsonObject) -> Point:
    name = metric.get("key")
    if not isinstance(name, str):
        raise invalid("Missing value for required parameter 'key'.")
    name = storable_text(name)
    write.check_name("metric", name)
    step, at_ms = metric.get("step"), metric.get("timestamp")
    try:
        value = value_from_json(metric.get("value"))
    except ValueError:
        what = f"Got invalid value {metric.get('value')!r} for metric '{name}': expected a number."
        raise invalid(what[:300]) from None
    step = 0 if step is None else whole(step, f"{name}.step")
    point = Point(name, value, step, write.now_ms if at_ms is None else whole(at_ms, f"{name}.timestamp"))
    write.check_metric(metric)
    return point


def _named_pair(write: MlflowWrite, kind: str, one: JsonObject, max_value: int) -> tuple[str, str]:
    key, value = pair(one)
    write.check_name(kind, key)
    return key, value[:max_value]


def _changed_param(run: str, key: str, first: str, value: str) -> MlflowRefusal:
    return invalid(
        f"Changing param values is not allowed. Param with key='{key}' was already logged with "
        f"value='{first}' for run ID='{run}'. Attempted logging new value '{value}'."
    )


def _check_batch(kind: str, count: int, most: int) -> None:
    if count > most:
        raise invalid(
            f"A batch logging request can contain at most {most} {kind}. Got {count} {kind}. "
            f"Please split up {kind} across multiple requests and try again."
        )
