"""Searches for runs over runs in memory."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from drumbeat.ports.metrics import Comparison, Order, RunPage, RunSearch
from drumbeat.protocol.errors import SpecError
from drumbeat.protocol.metrics import Run

_FIELDS = {
    "run_id": "id",
    "run_name": "name",
    "status": "status",
    "user_id": "user",
    "experiment_id": "experiment",
    "start_time": "start_ms",
    "end_time": "end_ms",
    "job": "job",
}


def page(runs: Sequence[Run], search: RunSearch, archived: Collection[str]) -> RunPage:
    """Returns a page of the runs that a search asks for. archived: ids of archived experiments. Raises SpecError."""
    if search.token and not search.token.isdigit():
        raise SpecError(f"no page of runs has the token {search.token!r}", where="page_token")
    start = int(search.token or "0")
    chosen = [run for run in runs if _is_in_view(run, search, archived)]
    chosen = [run for run in chosen if all(_holds(run, one) for one in search.comparisons)]
    chosen.sort(key=lambda run: (-run.start_ms, run.id))
    for order in reversed(search.orders):
        chosen = _sorted(chosen, order)
    end = start + search.limit
    return RunPage(tuple(chosen[start:end]), str(end) if end < len(chosen) else "")


def _is_in_view(run: Run, search: RunSearch, archived: Collection[str]) -> bool:
    is_hidden = run.deleted_ms is not None or run.experiment in archived
    is_shown = search.view == "all" or is_hidden == (search.view == "deleted")
    return is_shown and (not search.experiments or run.experiment in search.experiments)


def _sorted(runs: Sequence[Run], order: Order) -> list[Run]:
    kind, key, is_ascending = order
    values = {run.id: next(_values(run, kind, key), None) for run in runs}
    having = [run for run in runs if not _is_missing(values[run.id])]
    ranked: dict[str, Any] = values
    having.sort(key=lambda run: ranked[run.id], reverse=not is_ascending)
    return having + [run for run in runs if _is_missing(values[run.id])]


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _holds(run: Run, comparison: Comparison) -> bool:
    kind, key, wanted = comparison["type"], comparison["key"], comparison["value"]
    comparator = str(comparison["comparator"]).upper()
    if comparator in {"IS NULL", "IS NOT NULL"} and kind in {"parameter", "tag"}:
        return (next(_values(run, kind, key), None) is None) == (comparator == "IS NULL")
    compare = _COMPARATORS.get(comparator)
    if compare is None:
        raise SpecError(f"runs can't be compared by {comparison['comparator']!r}", where="filter")
    if kind == "metric":
        wanted = float(wanted)
    if kind == "attribute" and key.endswith("_time"):
        wanted = int(wanted)
    return any(not _is_missing(value) and compare(value, wanted) for value in _values(run, kind, key))


def _values(run: Run, kind: str, key: str) -> Iterator[Any]:
    """Yields what the run has under this key: nothing, one value, or one for each dataset. Raises SpecError."""
    if kind == "attribute":
        if key not in _FIELDS:
            raise SpecError(f"runs have no attribute {key!r}", where="filter")
        yield getattr(run, _FIELDS[key])
    elif kind == "metric":
        yield from (one.last.value for one in run.metrics if one.name == key)
    elif kind == "dataset":
        yield from (_fact(body, key) for body in run.datasets)
    elif kind in {"parameter", "tag"}:
        table = run.params if kind == "parameter" else run.tags
        if key in table:
            yield table[key]
    else:
        raise SpecError(f"runs can't be searched by {kind!r}", where="filter")


def _fact(body: dict[str, Any], key: str) -> str:
    if key == "context":
        tags = {tag["key"]: tag["value"] for tag in body.get("tags", [])}
        return str(tags.get("mlflow.data.context", ""))
    if key not in {"name", "digest"}:
        raise SpecError(f"datasets have no attribute {key!r}", where="filter")
    return str(body["dataset"][key])


def _like(value: str, pattern: str, flags: int = 0) -> bool:
    expression = re.escape(pattern).replace("%", ".*").replace("_", ".")
    return re.fullmatch(expression, value, re.DOTALL | flags) is not None


_COMPARATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "LIKE": _like,
    "ILIKE": lambda value, pattern: _like(value, pattern, re.IGNORECASE),
    "IN": lambda value, wanted: value in wanted,
    "NOT IN": lambda value, wanted: value not in wanted,
}
