"""Appends points: their rows, the summary of the series, and the blocks for thinning long curves.

Repeated points of a node are skipped in `records.py`, by offset; those of a client are skipped here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from drumbeat.core.curve_thinning import higher, highest, latest, lower, lowest
from drumbeat.model.metrics import Point
from drumbeat.server.metrics.metric_records import RECENT_POINTS
from drumbeat.server.metrics.tables.schema import BLOCK, blocks, points, series

SeriesKey = tuple[str, int, str]
"""Run, rank and name."""


def append(connection: Connection, key: SeriesKey, sent: Sequence[Point], *, is_repeatable: bool) -> None:
    """Appends points, at least one, to a series, which is created by its first points.

    is_repeatable: the sender may have sent them before; then they are skipped.
    """
    run, rank, name = key
    row = _row(connection, key)
    fresh = _fresh(connection, row, sent) if is_repeatable else sent
    if not fresh:
        return
    start: int = row.length if row else 0
    values = {"length": start + len(fresh), **_summary(row, fresh)}
    if row is None:
        new = insert(series).values(run=run, rank=rank, name=name, **values).returning(series.c.id)
        number = connection.execute(new).scalar_one()
    else:
        number = row.id
        connection.execute(update(series).where(series.c.id == number).values(values))
    connection.execute(
        insert(points),
        [
            {"series": number, "n": n, "value": stored(point.value), "step": point.step, "at_ms": point.at_ms}
            for n, point in enumerate(fresh, start)
        ],
    )
    _close_blocks(connection, number, start, fresh)


def stored(value: float) -> float | None:
    """Converts the value of a point for the database."""
    return None if math.isnan(value) else value


def logged(value: float | None) -> float:
    """Converts a value from the database to that of a point."""
    return math.nan if value is None else value


def last_point(row: Row[Any]) -> Point:
    """Returns the last point of a series' row."""
    return Point(row.name, logged(row.last_value), row.last_step, row.last_at_ms)


def min_point(row: Row[Any]) -> Point | None:
    """Returns the lowest point of a series' row."""
    return None if row.min_step is None else Point(row.name, row.min_value, row.min_step, row.min_at_ms)


def max_point(row: Row[Any]) -> Point | None:
    """Returns the highest point of a series' row."""
    return None if row.max_step is None else Point(row.name, row.max_value, row.max_step, row.max_at_ms)


def _row(connection: Connection, key: SeriesKey) -> Row[Any] | None:
    run, rank, name = key
    rows = connection.execute(select(series).where(series.c.run == run, series.c.rank == rank, series.c.name == name))
    return rows.one_or_none()


def _fresh(connection: Connection, row: Row[Any] | None, sent: Sequence[Point]) -> list[Point]:
    """Returns the points that are neither among the last ones of the series nor repeated among themselves."""
    recents: set[tuple[Any, ...]] = set()
    if row is not None:
        chosen = select(points.c.value, points.c.step, points.c.at_ms)
        recent = chosen.where(points.c.series == row.id, points.c.n >= row.length - RECENT_POINTS)
        times = [point.at_ms for point in sent]
        # Filtered by time, because nearly all new points are later than the stored ones, so few rows are read.
        recents = set(map(tuple, connection.execute(recent.where(points.c.at_ms.between(min(times), max(times))))))
    unique = {(stored(point.value), point.step, point.at_ms): point for point in sent}
    return [point for facts, point in unique.items() if facts not in recents]


def _summary(row: Row[Any] | None, fresh: Sequence[Point]) -> dict[str, Any]:
    """Returns the columns for the last, lowest and highest point, including the fresh points."""
    low = high = None
    candidates = [fresh[lowest(fresh, 0, len(fresh))], fresh[highest(fresh, 0, len(fresh))]]
    last = latest(fresh)
    if row is not None:
        low, high = min_point(row), max_point(row)
        last = latest([last_point(row), last])
    for point in candidates:
        low, high = lower(low, point), higher(high, point)
    columns: dict[str, Any] = {
        "last_value": stored(last.value),
        "last_step": last.step,
        "last_at_ms": last.at_ms,
    }
    for word, point in (("min", low), ("max", high)):
        value, step, at_ms = (point.value, point.step, point.at_ms) if point else (None, None, None)
        columns |= {f"{word}_value": value, f"{word}_step": step, f"{word}_at_ms": at_ms}
    return columns


def _close_blocks(connection: Connection, number: int, start: int, fresh: Sequence[Point]) -> None:
    """Writes the blocks that were completed by the fresh points, which begin at `start`."""
    first = start // BLOCK
    end = (start + len(fresh)) // BLOCK
    if first == end:
        return
    earlier = _points(connection, number, first * BLOCK, start) if start % BLOCK else []
    whole = [*earlier, *fresh]
    rows: list[dict[str, Any]] = []
    for block in range(first, end):
        at = (block - first) * BLOCK
        low, high = lowest(whole, at, at + BLOCK), highest(whole, at, at + BLOCK)
        rows.append(
            {
                "series": number,
                "n": block,
                "low_n": first * BLOCK + low,
                "low": stored(whole[low].value),
                "high_n": first * BLOCK + high,
                "high": stored(whole[high].value),
            }
        )
    connection.execute(insert(blocks), rows)


def _points(connection: Connection, number: int, start: int, end: int) -> list[Point]:
    chosen = select(points.c.value, points.c.step, points.c.at_ms)
    chosen = chosen.where(points.c.series == number, points.c.n >= start, points.c.n < end).order_by(points.c.n)
    return [Point("", logged(value), step, at_ms) for value, step, at_ms in connection.execute(chosen)]
