"""Reads which metric counts in each run, with its best value: as the experiment, the run or its name says."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, select

from drumbeat.model.metrics import SYSTEM, Point, PrimarySeries
from drumbeat.model.primary_metrics import (
    PRIMARY_TAG,
    Goal,
    PrimaryMetric,
    PrimarySource,
    goal_of,
    guess_place,
    parse_primary,
)
from drumbeat.server.metrics.tables.append_points import logged
from drumbeat.server.metrics.tables.read_curves import fetched, to_series
from drumbeat.server.metrics.tables.schema import experiments, points, runs, series, tags

_MAX_PARAMETERS = 500
"""Maximum number of parameters in one statement."""


class _Pick(NamedTuple):
    """A run's primary series, by its number."""

    number: int
    goal: Goal | None
    source: PrimarySource


class _Named(NamedTuple):
    """A series of rank 0, by the number that says which began first."""

    number: int
    name: str


def primaries(connection: Connection, chosen_runs: Sequence[str]) -> dict[str, PrimarySeries]:
    """Returns the primary series of rank 0 of each run that has one.

    The experiment's choice comes before the run's own, and that before a guess by the names; a metric that the run
    hasn't logged is passed over.
    """
    primary: dict[str, PrimarySeries] = {}
    for start in range(0, len(chosen_runs), _MAX_PARAMETERS):
        some = chosen_runs[start : start + _MAX_PARAMETERS]
        named, wanted = _names(connection, some), _wanted(connection, some)
        picks = {run: pick for run, own in named.items() if (pick := _pick(own, wanted.get(run, ())))}
        numbers = [pick.number for pick in picks.values()]
        for row in connection.execute(select(series).where(series.c.id.in_(numbers))):
            primary[row.run] = _primary(connection, row, picks[row.run])
    return primary


def common_primary(
    connection: Connection, chosen_runs: Sequence[str], logged_by: Mapping[str, int]
) -> PrimaryMetric | None:
    """Returns the metric by which these runs are ranked together: the one that most runs, or their experiments, name.

    Where none is named, it is guessed by the names. logged_by: how many runs have logged each metric.
    """
    named: Counter[PrimaryMetric] = Counter()
    for start in range(0, len(chosen_runs), _MAX_PARAMETERS):
        for wanted in _wanted(connection, chosen_runs[start : start + _MAX_PARAMETERS]).values():
            named.update([metric for metric, _ in wanted if metric.name in logged_by][:1])
    if named:
        return named.most_common(1)[0][0]
    places = [(place, -runs, name) for name, runs in logged_by.items() if (place := guess_place(name)) is not None]
    return PrimaryMetric(guess := min(places)[2], goal_of(guess)) if places else None


def _names(connection: Connection, some: Sequence[str]) -> dict[str, list[_Named]]:
    chosen = select(series.c.run, series.c.id, series.c.name).where(
        series.c.run.in_(some), series.c.rank == 0, ~series.c.name.startswith(SYSTEM, autoescape=True)
    )
    named: dict[str, list[_Named]] = {}
    for run, number, name in fetched(connection.execute(chosen)):
        named.setdefault(run, []).append(_Named(number, name))
    return named


def _wanted(connection: Connection, some: Sequence[str]) -> dict[str, list[tuple[PrimaryMetric, PrimarySource]]]:
    """Returns the metrics that the experiment and the run name, in this order."""
    wanted: dict[str, list[tuple[PrimaryMetric, PrimarySource]]] = {}
    of_experiments = select(runs.c.id, experiments.c.tags).join(experiments, experiments.c.id == runs.c.experiment)
    for run, body in connection.execute(
        of_experiments.where(runs.c.id.in_(some), experiments.c.tags.contains(PRIMARY_TAG))
    ):
        if metric := parse_primary(json.loads(body).get(PRIMARY_TAG, "")):
            wanted.setdefault(run, []).append((metric, "experiment"))
    of_runs = select(tags.c.run, tags.c.value).where(tags.c.run.in_(some), tags.c.key == PRIMARY_TAG)
    for run, tag in connection.execute(of_runs):
        if metric := parse_primary(tag):
            wanted.setdefault(run, []).append((metric, "job"))
    return wanted


def _pick(named: Sequence[_Named], wanted: Sequence[tuple[PrimaryMetric, PrimarySource]]) -> _Pick | None:
    by_name = {one.name: one.number for one in named}
    for metric, source in wanted:
        if metric.name in by_name:
            return _Pick(by_name[metric.name], metric.goal, source)
    places = [(place, one) for one in named if (place := guess_place(one.name)) is not None]
    if not places:
        return None
    guess = min(places)[1]
    return _Pick(guess.number, goal_of(guess.name), "guess")


def _primary(connection: Connection, row: Row[Any], pick: _Pick) -> PrimarySeries:
    own = to_series(row)
    best = {"maximize": own.max, "minimize": own.min, None: None}[pick.goal]
    if best is not None and not math.isfinite(best.value):
        best = _best_finite(connection, row, pick.goal)
    return PrimarySeries(own, pick.goal, best, pick.source)


def _best_finite(connection: Connection, row: Row[Any], goal: Goal | None) -> Point | None:
    """Returns the best point that is a number, of a series that has infinite ones."""
    order = points.c.value.desc() if goal == "maximize" else points.c.value
    is_number = points.c.value.is_not(None) & points.c.value.not_in((math.inf, -math.inf))
    chosen = select(points.c.value, points.c.step, points.c.at_ms).where(points.c.series == row.id, is_number)
    best = connection.execute(chosen.order_by(order, points.c.n).limit(1)).one_or_none()
    return None if best is None else Point(row.name, logged(best.value), best.step, best.at_ms)
