"""Reading series: their summaries, whole histories by pages, and curves of a few points that stand for all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, Select, func, select

from drumbeat.core.curves import MIN_POINTS, highest, lowest, part_count, parts, thin
from drumbeat.ports.metrics import HistoryPage, Series
from drumbeat.protocol.metrics import SYSTEM, Point
from drumbeat.stores.metrics.points import last_of, logged, max_of, min_of
from drumbeat.stores.metrics.schema import BLOCK, blocks, points, series


def series_of(connection: Connection, run: str) -> list[Series]:
    """Returns all series of a run in the order in which they began."""
    return [_series(row) for row in connection.execute(select(series).where(series.c.run == run).order_by(series.c.id))]


def main_series(connection: Connection, runs: Sequence[str]) -> dict[str, list[Series]]:
    """Returns the series of rank 0 of each run, by name."""
    chosen = select(series).where(series.c.run.in_(runs), series.c.rank == 0).order_by(series.c.name)
    table: dict[str, list[Series]] = {}
    for row in connection.execute(chosen):
        table.setdefault(row.run, []).append(_series(row))
    return table


def primaries(connection: Connection, runs: Sequence[str]) -> dict[str, Series]:
    """Returns the first series of rank 0 of each run that isn't the system's."""
    is_own = ~series.c.name.startswith(SYSTEM, autoescape=True)
    chosen = select(func.min(series.c.id)).where(series.c.run.in_(runs), series.c.rank == 0, is_own)
    first = chosen.group_by(series.c.run)
    return {row.run: _series(row) for row in connection.execute(select(series).where(series.c.id.in_(first)))}


def curve(connection: Connection, run: str, name: str, rank: int, max_points: int) -> list[Point]:
    """Returns the points that stand for a series, at most so many."""
    row = connection.execute(
        select(series.c.id, series.c.length).where(series.c.run == run, series.c.rank == rank, series.c.name == name)
    ).one_or_none()
    if row is None:
        return []
    max_points = max(max_points, MIN_POINTS)
    of_series = select(points.c.value, points.c.step, points.c.at_ms).where(points.c.series == row.id)
    count = part_count(max_points)
    if row.length // BLOCK < count or count == 1:
        return thin(_read(connection, name, of_series), max_points)
    kept = {0, row.length - 1} | _from_blocks(connection, row.id, count - 1)
    return _read(connection, name, of_series.where(points.c.n.in_(sorted(kept))))


def history(connection: Connection, key: tuple[str, str, int], after: int, limit: int) -> HistoryPage:
    """Returns a page of a series, by run, name and rank."""
    run, name, rank = key
    own = select(series.c.id).where(series.c.run == run, series.c.rank == rank, series.c.name == name)
    chosen = select(points.c.value, points.c.step, points.c.at_ms)
    chosen = chosen.where(points.c.series == own.scalar_subquery(), points.c.n >= after)
    found = _read(connection, name, chosen.limit(limit + 1))
    shown = tuple(found[:limit])
    return HistoryPage(shown, after + len(shown), is_last=len(found) <= limit)


def _from_blocks(connection: Connection, number: int, count: int) -> set[int]:
    """Returns the numbers of the lowest and highest points of so many parts, and of the points behind the last block.

    Each part is made of whole blocks, so that the points themselves are not read.
    """
    of_series = select(blocks.c.low_n, blocks.c.low, blocks.c.high_n, blocks.c.high).where(blocks.c.series == number)
    rows = connection.execute(of_series.order_by(blocks.c.n)).all()
    # Compared as tuples, which is fast: of equal values the first, and no numbers after all numbers.
    lows = [(math.inf if low is None else low, n) for n, low, _, _ in rows]
    highs = [(math.inf if high is None else -high, n) for _, _, n, high in rows]
    kept: set[int] = set()
    for start, end in parts(len(rows), count):
        kept |= {min(lows[start:end])[1], min(highs[start:end])[1]}
    first = len(rows) * BLOCK
    tail = select(points.c.value, points.c.step, points.c.at_ms).where(points.c.series == number, points.c.n >= first)
    rest = _read(connection, "", tail)
    if rest:
        kept |= {first + lowest(rest, 0, len(rest)), first + highest(rest, 0, len(rest))}
    return kept


def _read(connection: Connection, name: str, chosen: Select[Any, Any, Any]) -> list[Point]:
    rows = connection.execute(chosen.order_by(points.c.n))
    return [Point(name, logged(value), step, at_ms) for value, step, at_ms in rows]


def _series(row: Row[Any]) -> Series:
    return Series(row.name, row.rank, row.length, last_of(row), min_of(row), max_of(row))
