"""Reads series: their summaries, pages of their histories, and thinned curves."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Connection, CursorResult, Row, Select, func, select, text

from drumbeat.core.curve_thinning import (
    MIN_POINTS,
    highest,
    lowest,
    part_count,
    thin,
    thin_values,
)
from drumbeat.model.metrics import SYSTEM, Point, Series
from drumbeat.server.metrics.metric_records import HistoryPage
from drumbeat.server.metrics.tables.append_points import last_point, logged, max_point, min_point
from drumbeat.server.metrics.tables.curve_cache import CurveCache
from drumbeat.server.metrics.tables.schema import BLOCK, points, series

_EXTREMES = text("""
    WITH RECURSIVE part(k) AS (SELECT CAST(0 AS BIGINT) UNION ALL SELECT k + 1 FROM part WHERE k + 1 < :parts)
    SELECT
        (SELECT low_n FROM blocks WHERE series = :series AND n >= k * :whole / :parts AND n < (k + 1) * :whole / :parts
         ORDER BY low NULLS LAST, n LIMIT 1),
        (SELECT high_n FROM blocks WHERE series = :series AND n >= k * :whole / :parts AND n < (k + 1) * :whole / :parts
         ORDER BY high DESC NULLS LAST, n LIMIT 1)
    FROM part
""")
"""Selects the lowest and highest point of each part of a series: the first one of equals, or if there is no number."""
_INFINITE = (math.inf, -math.inf)
_MAX_PARAMETERS = 500
"""Maximum number of parameters in one statement."""
_POINTS = select(points.c.value, points.c.step, points.c.at_ms)
_SERIES = select(
    series.c.id, series.c.run, series.c.length, series.c.last_value, series.c.last_step, series.c.last_at_ms
)
"""The columns that identify the state of a series for the cache. The number isn't enough, because SQLite reuses the
numbers of removed series.
"""


def read_series(connection: Connection, run: str) -> list[Series]:
    """Returns all series of a run in the order in which they began."""
    return [
        to_series(row) for row in connection.execute(select(series).where(series.c.run == run).order_by(series.c.id))
    ]


def main_series(connection: Connection, runs: Sequence[str]) -> dict[str, list[Series]]:
    """Returns the series of rank 0 of each run, by name."""
    chosen = select(series).where(series.c.run.in_(runs), series.c.rank == 0).order_by(series.c.name)
    table: dict[str, list[Series]] = {}
    for row in connection.execute(chosen):
        table.setdefault(row.run, []).append(to_series(row))
    return table


def means(connection: Connection, run: str, names: Collection[str]) -> dict[tuple[str, int], float]:
    """Returns the mean of the finite values of each of a run's series with one of these names, by name and rank."""
    is_number = points.c.value.is_not(None) & points.c.value.not_in(_INFINITE)
    chosen = select(series.c.name, series.c.rank, func.avg(points.c.value)).join(points, points.c.series == series.c.id)
    chosen = chosen.where(series.c.run == run, series.c.name.in_(names), is_number)
    return {
        (name, rank): mean for name, rank, mean in connection.execute(chosen.group_by(series.c.name, series.c.rank))
    }


def not_finite(connection: Connection, runs: Sequence[str]) -> dict[str, Point]:
    """Returns, for each run whose rank 0 has a metric that is no number any more, the first point since which the first
    such metric has none.
    """
    is_own = ~series.c.name.startswith(SYSTEM, autoescape=True)
    is_lost = series.c.last_value.is_(None) | series.c.last_value.in_(_INFINITE)
    chosen = select(series.c.run, series.c.id, series.c.name).where(
        series.c.run.in_(runs), series.c.rank == 0, is_own, is_lost
    )
    first: dict[str, Point] = {}
    for row in connection.execute(chosen.order_by(series.c.id)):
        if row.run not in first and (point := _since(connection, row.id, row.name)):
            first[row.run] = point
    return first


def _since(connection: Connection, number: int, name: str) -> Point | None:
    own = points.c.series == number
    is_number = points.c.value.is_not(None) & points.c.value.not_in(_INFINITE)
    last = select(func.coalesce(func.max(points.c.n), -1)).where(own, is_number).scalar_subquery()
    row = connection.execute(_POINTS.where(own, points.c.n > last).order_by(points.c.n).limit(1)).one_or_none()
    return None if row is None else Point(name, logged(row.value), row.step, row.at_ms)


def curve(connection: Connection, run: str, name: str, rank: int, max_points: int, cache: CurveCache) -> list[Point]:
    """Returns the thinned curve of a series with at most so many points."""
    row = connection.execute(
        _SERIES.where(series.c.run == run, series.c.rank == rank, series.c.name == name)
    ).one_or_none()
    if row is None:
        return []
    cached = cache.get((*row, max_points))
    if cached is not None:
        return cached
    if _has_blocks(row.length, max_points):
        thinned = _long_curve(connection, name, (row.id, row.length), max_points)
    else:
        thinned = thin(_read(connection, name, _POINTS.where(points.c.series == row.id)), max_points)
    cache.put((*row, max_points), thinned)
    return thinned


def read_curves(
    connection: Connection, runs: Sequence[str], name: str, max_points: int, cache: CurveCache
) -> dict[str, list[Point]]:
    """Returns the curve of rank 0 of each run that has the series. Short curves are read together."""
    curves: dict[str, list[Point]] = {}
    own = _SERIES.where(series.c.rank == 0, series.c.name == name)
    for start in range(0, len(runs), _MAX_PARAMETERS):
        rows = connection.execute(own.where(series.c.run.in_(runs[start : start + _MAX_PARAMETERS]))).all()
        kept = {row.id: cache.get((*row, max_points)) for row in rows}
        missing = [row for row in rows if kept[row.id] is None]
        curves_by_series = _short_curves(
            connection, name, [row.id for row in missing if not _has_blocks(row.length, max_points)], max_points
        )
        for row in missing:
            own_curve = curves_by_series.get(row.id)
            if own_curve is None:
                own_curve = _long_curve(connection, name, (row.id, row.length), max_points)
            kept[row.id] = own_curve
            cache.put((*row, max_points), own_curve)
        curves |= {row.run: kept[row.id] or [] for row in rows}
    return curves


def _short_curves(connection: Connection, name: str, numbers: Sequence[int], max_points: int) -> dict[int, list[Point]]:
    """Returns curves by the series' number, from all points of the series."""
    rows = _read_rows(connection, numbers)
    if not rows:
        return {}
    # By columns, because a step of Python for each point would take longer than SQLite takes.
    owners, values, steps, times = zip(*rows, strict=True)
    if None in values:
        values = tuple(map(logged, values))
    curves: dict[int, list[Point]] = {}
    start = 0
    while start < len(owners):
        end = bisect_right(owners, owners[start], start)
        kept = thin_values(values[start:end], max_points)
        curves[owners[start]] = [Point(name, values[n], steps[n], times[n]) for n in (start + one for one in kept)]
        start = end
    return curves


def _has_blocks(length: int, max_points: int) -> bool:
    """Whether so many points can be selected by blocks, without reading all points."""
    count = part_count(max(max_points, MIN_POINTS))
    return count > 1 and length // BLOCK >= count


def _long_curve(connection: Connection, name: str, size: tuple[int, int], max_points: int) -> list[Point]:
    number, length = size
    count = part_count(max(max_points, MIN_POINTS))
    kept = {0, length - 1} | _from_blocks(connection, number, length // BLOCK, count - 1)
    # Numbers are inlined, because binding so many parameters takes longer than reading the points.
    chosen = ", ".join(map(str, sorted(kept)))
    statement = f"SELECT value, step, at_ms FROM points WHERE series = {number:d} AND n IN ({chosen}) ORDER BY n"  # noqa: S608 - integers
    rows = fetched(connection.exec_driver_sql(statement))
    return [Point(name, logged(value), step, at_ms) for value, step, at_ms in rows]


def _read_rows(connection: Connection, numbers: Sequence[int]) -> Sequence[tuple[Any, ...]]:
    """Returns all points of several series with the series' number, one series after the other."""
    chosen = select(points.c.series, points.c.value, points.c.step, points.c.at_ms)
    return fetched(connection.execute(chosen.where(points.c.series.in_(numbers)).order_by(points.c.series, points.c.n)))


def history(connection: Connection, key: tuple[str, str, int], after: int, limit: int) -> HistoryPage:
    """Returns a page of a series, by run, name and rank."""
    run, name, rank = key
    own = select(series.c.id).where(series.c.run == run, series.c.rank == rank, series.c.name == name)
    chosen = select(points.c.value, points.c.step, points.c.at_ms)
    chosen = chosen.where(points.c.series == own.scalar_subquery(), points.c.n >= after)
    rest = _read(connection, name, chosen.limit(limit + 1))
    shown = tuple(rest[:limit])
    return HistoryPage(shown, after + len(shown), is_last=len(rest) <= limit)


def _from_blocks(connection: Connection, number: int, whole: int, count: int) -> set[int]:
    """Returns the indexes of the lowest and highest points of so many parts, and of the points after the last block.

    Each part consists of complete blocks, so the points themselves aren't read. whole: the number of blocks.
    """
    rows = connection.execute(_EXTREMES, {"series": number, "whole": whole, "parts": count})
    kept = {n for row in fetched(rows) for n in row}
    first = whole * BLOCK
    rest = _read(connection, "", _POINTS.where(points.c.series == number, points.c.n >= first))
    if rest:
        kept |= {first + lowest(rest, 0, len(rest)), first + highest(rest, 0, len(rest))}
    return kept


def fetched(result: CursorResult[*tuple[Any, ...]]) -> Sequence[tuple[Any, ...]]:
    """Returns the driver's rows, as SQLAlchemy's take longer to create than SQLite takes to read them."""
    with result:
        return [] if result.cursor is None else result.cursor.fetchall()


def _read(connection: Connection, name: str, chosen: Select[Any, Any, Any]) -> list[Point]:
    rows = fetched(connection.execute(chosen.order_by(points.c.n)))
    return [Point(name, logged(value), step, at_ms) for value, step, at_ms in rows]


def to_series(row: Row[Any]) -> Series:
    """Returns the series of a row of its table."""
    return Series(row.name, row.rank, row.length, last_point(row), min_point(row), max_point(row))
