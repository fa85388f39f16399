"""Reads single values of many runs at once: of metrics, parameters and tags; and which of these there are."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Literal

from sqlalchemy import Column, ColumnElement, Connection, func, select

from drumbeat.core.run_queries.fields import Cell, Point
from drumbeat.model.metrics import SYSTEM
from drumbeat.server.metrics.metric_records import FieldUse, UseKind
from drumbeat.server.metrics.tables.append_points import logged
from drumbeat.server.metrics.tables.schema import params, series, tags

_SOME = 500
"""Runs in one statement."""

KINDS: tuple[UseKind, ...] = ("metric", "param", "tag")
"""In the order of the list."""

Cells = dict[str, dict[str, Cell]]
"""Values by run and name."""


def metric_values(connection: Connection, runs: Sequence[str], names: Collection[str], point: Point) -> Cells:
    """Returns the last, lowest or highest value of metrics of rank 0, by run."""
    value = {"last": series.c.last_value, "min": series.c.min_value, "max": series.c.max_value}[point]
    chosen = select(series.c.run, series.c.name, value).where(series.c.rank == 0, series.c.name.in_(names))
    cells: Cells = {}
    for some in _parts(runs):
        for run, name, number in connection.execute(chosen.where(series.c.run.in_(some))):
            # A curve of NaN only has no lowest value, and its last one is NaN.
            cells.setdefault(run, {})[name] = logged(number) if point == "last" else number
    return cells


def text_values(
    connection: Connection, table: Literal["params", "tags"], runs: Sequence[str], names: Collection[str]
) -> Cells:
    """Returns parameters or tags, by run."""
    of = params if table == "params" else tags
    chosen = select(of.c.run, of.c.key, of.c.value).where(of.c.key.in_(names))
    cells: Cells = {}
    for some in _parts(runs):
        for run, key, value in connection.execute(chosen.where(of.c.run.in_(some))):
            cells.setdefault(run, {})[key] = value
    return cells


def field_uses(connection: Connection, runs: Sequence[str], limit: int) -> list[FieldUse]:
    """Returns the metrics, parameters and tags of runs, at most `limit` of each kind, those of most runs first."""
    uses: dict[tuple[UseKind, str], tuple[int, int]] = {}
    is_own = ~series.c.name.startswith(SYSTEM, autoescape=True)
    kinds: tuple[tuple[UseKind, Column[str], Column[str], Column[str] | None, tuple[ColumnElement[bool], ...]], ...] = (
        ("metric", series.c.run, series.c.name, None, (series.c.rank == 0, is_own)),
        ("param", params.c.run, params.c.key, params.c.value, ()),
        ("tag", tags.c.run, tags.c.key, None, ()),
    )
    for some in _parts(runs):
        for kind, run, name, value, conditions in kinds:
            values = func.count(value.distinct()) if value is not None else func.count() * 0
            chosen = select(name, func.count(), values).where(run.in_(some), *conditions).group_by(name)
            for key, count, distinct in connection.execute(chosen):
                before = uses.get((kind, key), (0, 0))
                uses[kind, key] = before[0] + count, max(before[1], distinct)
    every = sorted(
        (FieldUse(kind, key, *counts) for (kind, key), counts in uses.items()), key=lambda one: (-one.runs, one.key)
    )
    return [one for kind in KINDS for one in [use for use in every if use.kind == kind][:limit]]


def _parts(runs: Sequence[str]) -> Iterator[Sequence[str]]:
    return (runs[start : start + _SOME] for start in range(0, len(runs), _SOME))
