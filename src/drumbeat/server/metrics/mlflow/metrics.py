"""Histories of metrics."""

from __future__ import annotations

import math
from collections.abc import Iterator

from drumbeat.model.metrics import JsonObject, Point
from drumbeat.model.mlflow_calls import invalid
from drumbeat.model.mlflow_runs import metric_view
from drumbeat.server.metrics.mlflow.request import Call, parse_page_token
from drumbeat.server.metrics.mlflow.runs import visible_rank

_PAGE = 25_000
_MAX_BULK_RUNS = 100


def get_history(call: Call) -> JsonObject:
    """Answers metrics/get-history, completely if `max_results` isn't given."""
    run, name, limit = call.run(), call.text("metric_key"), call.number("max_results")
    rank = visible_rank(call.store.series(run.id), name, call.rank)
    if limit is None:
        return {"metrics": [metric_view(point) for point in _points(call, run.id, name, rank)]}
    if limit < 1:
        raise invalid(f"Invalid value {limit} for parameter 'max_results': it must be positive.")
    page = call.store.history(run.id, name, rank, parse_page_token(call.text_or("page_token")), min(limit, _PAGE))
    page_body: JsonObject = {"metrics": [metric_view(point) for point in page.points]}
    return page_body | ({} if page.is_last else {"next_page_token": str(page.after)})


def get_history_bulk(call: Call) -> JsonObject:
    """Answers metrics/get-history-bulk."""
    name, limit = call.text("metric_key"), call.limit(_PAGE, _PAGE)
    runs = _runs(call, "run_id")
    history = [metric_view(point) | {"run_id": run} for run in runs for point in _points(call, run, name, 0)]
    history.sort(key=lambda one: (one["run_id"], one["timestamp"], one["step"]))
    return {"metrics": history[:limit]}


def get_history_bulk_interval(call: Call) -> JsonObject:
    """Answers metrics/get-history-bulk-interval with at most `max_results` points of a run, at evenly spread steps."""
    name, limit = call.text("metric_key"), call.limit(320, 2500)
    start, end = call.number("start_step"), call.number("end_step")
    if (start is None) != (end is None):
        raise invalid("If either start step or end step are specified, both must be specified.")
    low, high = (-math.inf, math.inf) if start is None or end is None else (start, end)
    if low > high:
        raise invalid("end_step must be greater than start_step.")
    history: list[JsonObject] = []
    for run in _runs(call, "run_ids"):
        points = [point for point in _points(call, run, name, 0) if low <= point.step <= high]
        steps = _spread(sorted({point.step for point in points}), limit)
        history += [metric_view(point) | {"run_id": run} for point in points if point.step in steps]
    return {"metrics": history}


def _runs(call: Call, name: str) -> list[str]:
    runs = call.texts(name)
    if not runs:
        raise invalid(f"Missing value for required parameter '{name}'.")
    if len(runs) > _MAX_BULK_RUNS:
        raise invalid(f"At most {_MAX_BULK_RUNS} runs can be asked for at once, not {len(runs)}.")
    return [call.find_run(run).id for run in runs]


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
