"""Searches runs with comparisons and orders in SQL, and reads them completely."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Table, and_, exists, select

from drumbeat.model.errors import NotFoundError, SpecError
from drumbeat.model.metrics import Run
from drumbeat.server.metrics.metric_records import Comparison, Order, RunPage, RunSearch
from drumbeat.server.metrics.tables.experiments import canonical_id
from drumbeat.server.metrics.tables.read_curves import main_series
from drumbeat.server.metrics.tables.schema import experiments, links, params, runs, series, tags

_ATTRIBUTES: dict[str, ColumnElement[Any]] = {
    "run_id": runs.c.id,
    "run_name": runs.c.name,
    "status": runs.c.status,
    "user_id": runs.c.user,
    "experiment_id": runs.c.experiment,
    "start_time": runs.c.start_ms,
    "end_time": runs.c.end_ms,
    "job": runs.c.job,
}
_DATASETS = {"name": links.c.dataset_name, "digest": links.c.dataset_digest, "context": links.c.context}

_COMPARATORS: dict[str, Callable[[ColumnElement[Any], Any], ColumnElement[bool]]] = {
    "=": lambda column, value: column == value,
    "==": lambda column, value: column == value,
    "!=": lambda column, value: column != value,
    ">": lambda column, value: column > value,
    ">=": lambda column, value: column >= value,
    "<": lambda column, value: column < value,
    "<=": lambda column, value: column <= value,
    "LIKE": lambda column, value: column.like(value),
    "ILIKE": lambda column, value: column.ilike(value),
    "IN": lambda column, value: column.in_(list(value)),
    "NOT IN": lambda column, value: column.not_in(list(value)),
}


def one(connection: Connection, id: str) -> Run:
    """Returns one run. Raises NotFoundError."""
    row = connection.execute(select(runs).where(runs.c.id == id)).one_or_none()
    if row is None:
        raise NotFoundError(f"there is no run {id[:80]!r}")
    return _whole(connection, [row])[0]


def page(connection: Connection, search: RunSearch) -> RunPage:
    """Returns a page of the runs that match a search. Raises SpecError."""
    if search.token and not (search.token.isascii() and search.token.isdigit()):
        raise SpecError(f"no page of runs has the token {search.token[:40]!r}", where="page_token")
    start = int(search.token or "0")
    chosen = select(runs).where(*_view(search), *(_condition(one) for one in search.comparisons))
    if search.experiments:
        chosen = chosen.where(runs.c.experiment.in_([canonical_id(connection, one) for one in search.experiments]))
    for order in search.orders:
        value = _sorted_by(order)
        chosen = chosen.order_by(value.is_(None), value.asc() if order[2] else value.desc())
    chosen = chosen.order_by(runs.c.start_ms.desc(), runs.c.id).offset(start).limit(search.limit + 1)
    rows = connection.execute(chosen).all()
    token = str(start + search.limit) if len(rows) > search.limit else ""
    return RunPage(tuple(_whole(connection, rows[: search.limit])), token)


def has_outside_run(connection: Connection, since_ms: int, until_ms: int) -> bool:
    """Whether a run outside of jobs is RUNNING with its start or last point between these times."""
    points = exists().where(series.c.run == runs.c.id, series.c.last_at_ms.between(since_ms, until_ms))
    running = runs.c.job == "", runs.c.status == "RUNNING", runs.c.deleted_ms.is_(None)
    recent = runs.c.start_ms.between(since_ms, until_ms) | points
    return connection.execute(select(runs.c.id).where(*running, recent).limit(1)).first() is not None


def _view(search: RunSearch) -> list[ColumnElement[bool]]:
    archived = runs.c.experiment.in_(select(experiments.c.id).where(experiments.c.is_archived))
    if search.view == "active":
        return [runs.c.deleted_ms.is_(None), ~archived]
    return [runs.c.deleted_ms.is_not(None) | archived] if search.view == "deleted" else []


def _condition(comparison: Comparison) -> ColumnElement[bool]:
    kind, key, value = comparison["type"], str(comparison["key"]), comparison["value"]
    comparator = str(comparison["comparator"]).upper()
    if comparator in {"IS NULL", "IS NOT NULL"} and kind in {"parameter", "tag"}:
        is_there = exists().where(_keyed(kind).c.run == runs.c.id, _keyed(kind).c.key == key)
        return is_there if comparator == "IS NOT NULL" else ~is_there
    compare = _COMPARATORS.get(comparator)
    if compare is None:
        what = f"runs can't be compared by {comparison['comparator']!r}"
        raise SpecError(what, where="filter", fix=f"Use one of {', '.join(_COMPARATORS)}.")
    if kind == "attribute":
        column = _attribute(key)
        return compare(column, int(value) if key.endswith("_time") else value)
    if kind == "metric":
        of_run = and_(series.c.run == runs.c.id, series.c.rank == 0, series.c.name == key)
        return exists().where(of_run, compare(series.c.last_value, float(value)))
    if kind == "dataset":
        of_run = and_(links.c.run == runs.c.id, links.c.kind == "dataset")
        return exists().where(of_run, compare(_column(_DATASETS, key, "datasets"), value))
    table = _keyed(kind)
    return exists().where(table.c.run == runs.c.id, table.c.key == key, compare(table.c.value, value))


def _sorted_by(order: Order) -> ColumnElement[Any]:
    kind, key, _ = order
    if kind == "attribute":
        return _attribute(key)
    if kind == "metric":
        of_run = and_(series.c.run == runs.c.id, series.c.rank == 0, series.c.name == key)
        return select(series.c.last_value).where(of_run).scalar_subquery()
    table = _keyed(kind)
    return select(table.c.value).where(table.c.run == runs.c.id, table.c.key == key).scalar_subquery()


def _attribute(key: str) -> ColumnElement[Any]:
    return _column(_ATTRIBUTES, key, "runs")


def _column(columns: dict[str, Any], key: str, what: str) -> ColumnElement[Any]:
    if key not in columns:
        raise SpecError(f"{what} have no attribute {key[:80]!r}", where="filter", fix=f"Use {', '.join(columns)}.")
    return columns[key]


def _keyed(kind: str) -> Table:
    if kind not in {"parameter", "tag"}:
        raise SpecError(f"runs can't be searched by {kind[:40]!r}", where="filter")
    return params if kind == "parameter" else tags


def _whole(connection: Connection, rows: Sequence[Row[Any]]) -> list[Run]:
    ids = [row.id for row in rows]
    main = main_series(connection, ids)
    params_of, tags_of = _pairs(connection, params, ids), _pairs(connection, tags, ids)
    links_of: dict[tuple[str, str], list[dict[str, Any]]] = {}
    chosen = select(links.c.run, links.c.kind, links.c.body).where(links.c.run.in_(ids)).order_by(links.c.id)
    for run, kind, body in connection.execute(chosen):
        links_of.setdefault((run, kind), []).append(json.loads(body))
    return [
        Run(
            id=row.id,
            experiment=row.experiment,
            name=row.name,
            status=row.status,
            start_ms=row.start_ms,
            end_ms=row.end_ms,
            user=row.user,
            job=row.job,
            deleted_ms=row.deleted_ms,
            params=params_of.get(row.id, {}),
            tags=tags_of.get(row.id, {}),
            datasets=tuple(links_of.get((row.id, "dataset"), ())),
            model_inputs=tuple(links_of.get((row.id, "model_input"), ())),
            model_outputs=tuple(links_of.get((row.id, "model_output"), ())),
            metrics=tuple(main.get(row.id, ())),
        )
        for row in rows
    ]


def _pairs(connection: Connection, table: Table, ids: Sequence[str]) -> dict[str, dict[str, str]]:
    pairs: dict[str, dict[str, str]] = {}
    chosen = select(table.c.run, table.c.key, table.c.value).where(table.c.run.in_(ids)).order_by(table.c.key)
    for run, key, value in connection.execute(chosen):
        pairs.setdefault(run, {})[key] = value
    return pairs
