"""Metrics: logged one by one or in batches, and their histories."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from drumbeat.protocol.errors import ConflictError
from drumbeat.protocol.metrics import (
    JsonObject,
    MetricRecord,
    ParamsLogged,
    Point,
    PointsLogged,
    value_from_json,
    value_to_json,
)
from drumbeat.protocol.mlflow_limits import MAX_METRICS_IN_BATCH, MAX_PARAM_VALUE, MAX_PARAMS_IN_BATCH, MAX_TAG_VALUE
from drumbeat.server.mlflow import logged_models
from drumbeat.server.mlflow.errors import MlflowRefusal, invalid
from drumbeat.server.mlflow.limits import (
    check_batch,
    check_name,
    check_pairs,
)
from drumbeat.server.mlflow.request import Call, page_of, pairs, whole
from drumbeat.server.mlflow.runs import series_of, tag_records

_PAGE = 25_000
_MAX_BULK_RUNS = 100
_MAX_SENTENCES = 10
"""Sentences of an answer on elements that aren't kept."""


def log_metric(call: Call) -> JsonObject:
    """Answers runs/log-metric."""
    run = call.active_run()
    point = _point(call.arguments, call.now_ms)
    logged_models.check_models(call, [call.arguments])
    call.store.write([PointsLogged(run.id, call.rank, (point,))])
    logged_models.add_metrics(call, run.id, [call.arguments])
    return {}


def log_parameter(call: Call) -> JsonObject:
    """Answers runs/log-parameter."""
    refused: list[MlflowRefusal] = []
    _write(call, call.active_run().id, _params({call.text("key"): call.text_or("value")}), [], refused)
    if refused:
        raise refused[0]
    return {}


def log_batch(call: Call) -> JsonObject:
    """Answers runs/log-batch. What MLflow doesn't take of it is refused, after all else was kept."""
    run = call.active_run()
    metrics, params, tags = call.objects("metrics"), call.objects("params"), call.objects("tags")
    check_batch("metrics", len(metrics), MAX_METRICS_IN_BATCH)
    check_batch("params", len(params), MAX_PARAMS_IN_BATCH)
    check_batch("tags", len(tags), MAX_PARAMS_IN_BATCH)
    check_batch("metrics, params, and tags", len(metrics) + len(params) + len(tags), MAX_METRICS_IN_BATCH)
    refused: list[MlflowRefusal] = []
    metrics = _kept(metrics, lambda one: _check_metric(call, one), refused)
    records: list[MetricRecord] = []
    if metrics:
        records.append(PointsLogged(run.id, call.rank, tuple(_point(one, call.now_ms) for one in metrics)))
    if tags := _kept(tags, lambda one: check_pairs("tag", pairs([one]), MAX_TAG_VALUE), refused):
        records += tag_records(run.id, pairs(tags))
    params = _kept(params, lambda one: _params(pairs([one])), refused)
    _write(call, run.id, pairs(params), records, refused)
    logged_models.add_metrics(call, run.id, metrics)
    if refused:
        more = f"; and {len(refused) - _MAX_SENTENCES} more" if len(refused) > _MAX_SENTENCES else ""
        what = "; ".join(one.message for one in refused[:_MAX_SENTENCES])
        raise MlflowRefusal(refused[0].code, f"{what}{more} (everything else of this request is kept)")
    return {}


def _kept(
    elements: list[JsonObject], check: Callable[[JsonObject], object], refused: list[MlflowRefusal]
) -> list[JsonObject]:
    """Returns the elements that pass the check; adds the refusals of the others to `refused`."""
    kept: list[JsonObject] = []
    for one in elements:
        try:
            check(one)
        except MlflowRefusal as refusal:
            refused.append(refusal)
        else:
            kept.append(one)
    return kept


def _check_metric(call: Call, metric: JsonObject) -> None:
    _point(metric, call.now_ms)
    logged_models.check_models(call, [metric])


def get_history(call: Call) -> JsonObject:
    """Answers metrics/get-history: whole if `max_results` isn't given."""
    run, name, limit = call.run(), call.text("metric_key"), call.number("max_results")
    rank = series_of(call.store.series(run.id), name, call.rank)
    if limit is None:
        return {"metrics": [_metric(name, point) for point in _points(call, run.id, name, rank)]}
    if limit < 1:
        raise invalid(f"Invalid value {limit} for parameter 'max_results': it must be positive.")
    page = call.store.history(run.id, name, rank, page_of(call.text_or("page_token")), min(limit, _PAGE))
    page_body: JsonObject = {"metrics": [_metric(name, point) for point in page.points]}
    return page_body | ({} if page.is_last else {"next_page_token": str(page.after)})


def get_history_bulk(call: Call) -> JsonObject:
    """Answers metrics/get-history-bulk."""
    name, limit = call.text("metric_key"), call.limit(_PAGE, _PAGE)
    runs = _runs(call, "run_id")
    found = [_metric(name, point) | {"run_id": run} for run in runs for point in _points(call, run, name, 0)]
    found.sort(key=lambda one: (one["run_id"], one["timestamp"], one["step"]))
    return {"metrics": found[:limit]}


def get_history_bulk_interval(call: Call) -> JsonObject:
    """Answers metrics/get-history-bulk-interval: of each run at most `max_results` points, of evenly spread steps."""
    name, limit = call.text("metric_key"), call.limit(320, 2500)
    start, end = call.number("start_step"), call.number("end_step")
    if (start is None) != (end is None):
        raise invalid("If either start step or end step are specified, both must be specified.")
    low, high = (-math.inf, math.inf) if start is None or end is None else (start, end)
    if low > high:
        raise invalid("end_step must be greater than start_step.")
    found: list[JsonObject] = []
    for run in _runs(call, "run_ids"):
        points = [point for point in _points(call, run, name, 0) if low <= point.step <= high]
        steps = _spread(sorted({point.step for point in points}), limit)
        found += [_metric(name, point) | {"run_id": run} for point in points if point.step in steps]
    return {"metrics": found}


def _runs(call: Call, name: str) -> list[str]:
    runs = call.texts(name)
    if not runs:
        raise invalid(f"Missing value for required parameter '{name}'.")
    if len(runs) > _MAX_BULK_RUNS:
        raise invalid(f"At most {_MAX_BULK_RUNS} runs can be asked for at once, not {len(runs)}.")
    return [call.run_of(run).id for run in runs]


def _spread(steps: list[int], most: int) -> set[int]:
    if len(steps) <= most:
        return set(steps)
    return {steps[i * (len(steps) - 1) // max(1, most - 1)] for i in range(most)}


def _points(call: Call, run: str, name: str, rank: int) -> Iterator[Point]:
    page = call.store.history(run, name, rank, 0, _PAGE)
    yield from page.points
    while not page.is_last:
        page = call.store.history(run, name, rank, page.after, _PAGE)
        yield from page.points


def _params(params: dict[str, str]) -> dict[str, str]:
    check_pairs("param", params, MAX_PARAM_VALUE)
    return params


def _write(
    call: Call, run: str, params: dict[str, str], records: list[MetricRecord], refused: list[MlflowRefusal]
) -> None:
    """Writes all but the parameters that have another value already, whose refusals it adds to `refused`."""
    while True:
        try:
            call.store.write([*records, *([ParamsLogged(run, params)] if params else [])])
        except ConflictError:
            kept = call.store.run(run).params
            changed = [key for key, value in params.items() if kept.get(key, value) != value] or list(params)
            refused += [_changed_param(run, key, kept.get(key, ""), params[key]) for key in changed]
            params = {key: value for key, value in params.items() if key not in changed}
        else:
            return


def _changed_param(run: str, key: str, kept: str, value: str) -> MlflowRefusal:
    return invalid(
        f"Changing param values is not allowed. Param with key='{key}' was already logged with "
        f"value='{kept}' for run ID='{run}'. Attempted logging new value '{value}'."
    )


def _point(metric: JsonObject, now_ms: int) -> Point:
    name = metric.get("key")
    if not isinstance(name, str):
        raise invalid("Missing value for required parameter 'key'.")
    check_name("metric", name)
    step, at_ms = metric.get("step"), metric.get("timestamp")
    try:
        value = value_from_json(metric.get("value"))
    except ValueError:
        raise invalid(
            f"Got invalid value {metric.get('value')!r} for metric '{name}': expected a number."[:300]
        ) from None
    step = 0 if step is None else whole(step, "step")
    return Point(name, value, step, now_ms if at_ms is None else whole(at_ms, "timestamp"))


def _metric(name: str, point: Point) -> dict[str, Any]:
    return {"key": name, "value": value_to_json(point.value), "timestamp": point.at_ms, "step": point.step}
