"""Reading series: their summaries, whole histories by pages, and curves of a few points that stand for all."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection, CursorResult, Row, Select, func, select, text

from drumbeat.core.curves import MIN_POINTS, highest, lowest, part_count, thin, thin_values
from drumbeat.ports.metrics import HistoryPage, Series
from drumbeat.protocol.metrics import SYSTEM, Point
from drumbeat.stores.metrics.points import last_of, logged, max_of, min_of
from drumbeat.stores.metrics.schema import BLOCK, points, series

_EXTREMES = text("""
    WITH RECURSIVE part(k) AS (SELECT CAST(0 AS BIGINT) UNION ALL SELECT k + 1 FROM part WHERE k + 1 < :parts)
    SELECT
        (SELECT low_n FROM blocks WHERE series = :series AND n >= k * :whole / :parts AND n < (k + 1) * :whole / :parts
         ORDER BY low NULLS LAST, n LIMIT 1),
        (SELECT high_n FROM blocks WHERE series = :series AND n >= k * :whole / :parts AND n < (k + 1) * :whole / :parts
         ORDER BY high DESC NULLS LAST, n LIMIT 1)
    FROM part
""")
"""The lowest and the highest point of each part of a series: of equal ones the first, of no numbers the first, too."""
_MAX_PARAMETERS = 500
"""In one statement."""
_POINTS = select(points.c.value, points.c.step, points.c.at_ms)


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
    if _has_blocks(row.length, max_points):
        return _long_curve(connection, name, (row.id, row.length), max_points)
    return thin(_read(connection, name, _POINTS.where(points.c.series == row.id)), max_points)


def curves_of(connection: Connection, runs: Sequence[str], name: str, max_points: int) -> dict[str, list[Point]]:
    """Returns the curve of rank 0 of each run that has the series; short ones are read together."""
    curves: dict[str, list[Point]] = {}
    own = select(series.c.id, series.c.run, series.c.length).where(series.c.rank == 0, series.c.name == name)
    for start in range(0, len(runs), _MAX_PARAMETERS):
        rows = connection.execute(own.where(series.c.run.in_(runs[start : start + _MAX_PARAMETERS]))).all()
        short = {row.id: row.run for row in rows if not _has_blocks(row.length, max_points)}
        for number, all_points in _rows_of(connection, list(short)).items():
            kept = thin_values([logged(value) for _, value, _, _ in all_points], max_points)
            curves[short[number]] = [
                Point(name, logged(value), *at) for _, value, *at in map(all_points.__getitem__, kept)
            ]
        for row in rows:
            if row.id not in short:
                curves[row.run] = _long_curve(connection, name, (row.id, row.length), max_points)
    return curves


def _has_blocks(length: int, max_points: int) -> bool:
    """Whether so many points can be chosen by blocks, without reading all points."""
    count = part_count(max(max_points, MIN_POINTS))
    return count > 1 and length // BLOCK >= count


def _long_curve(connection: Connection, name: str, size: tuple[int, int], max_points: int) -> list[Point]:
    number, length = size
    count = part_count(max(max_points, MIN_POINTS))
    kept = {0, length - 1} | _from_blocks(connection, number, length // BLOCK, count - 1)
    # As numbers in the statement: so many parameters take longer to bind than the points take to read.
    chosen = ", ".join(map(str, sorted(kept)))
    statement = f"SELECT value, step, at_ms FROM points WHERE series = {number:d} AND n IN ({chosen}) ORDER BY n"  # noqa: S608 - integers
    rows = _fetched(connection.exec_driver_sql(statement))
    return [Point(name, logged(value), step, at_ms) for value, step, at_ms in rows]


def _rows_of(connection: Connection, numbers: Sequence[int]) -> dict[int, list[tuple[Any, ...]]]:
    """Returns all points of several series, with the series' number in front."""
    chosen = select(points.c.series, points.c.value, points.c.step, points.c.at_ms)
    chosen = chosen.where(points.c.series.in_(numbers)).order_by(points.c.series, points.c.n)
    rows = _fetched(connection.execute(chosen))
    return {number: list(own) for number, own in groupby(rows, itemgetter(0))}


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
    """Returns the numbers of the lowest and highest points of so many parts, and of the points behind the last block.

    Each part is made of whole blocks, so that the points themselves are not read. whole: how many there are.
    """
    rows = connection.execute(_EXTREMES, {"series": number, "whole": whole, "parts": count})
    kept = {n for row in _fetched(rows) for n in row}
    first = whole * BLOCK
    rest = _read(connection, "", _POINTS.where(points.c.series == number, points.c.n >= first))
    if rest:
        kept |= {first + lowest(rest, 0, len(rest)), first + highest(rest, 0, len(rest))}
    return kept


def _fetched(result: CursorResult[*tuple[Any, ...]]) -> Sequence[tuple[Any, ...]]:
    """Returns rows as the driver has them: those of SQLAlchemy take longer to make than SQLite takes to read them."""
    with result:
        return [] if result.cursor is None else result.cursor.fetchall()


def _read(connection: Connection, name: str, chosen: Select[Any, Any, Any]) -> list[Point]:
    rows = _fetched(connection.execute(chosen.order_by(points.c.n)))
    return [Point(name, logged(value), step, at_ms) for value, step, at_ms in rows]


def _series(row: Row[Any]) -> Series:
    return Series(row.name, row.rank, row.length, last_of(row), min_of(row), max_of(row))
