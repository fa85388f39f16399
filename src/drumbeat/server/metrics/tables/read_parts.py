"""Reads the means of series over equally long parts of time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, select, text

from drumbeat.model.metrics import Series
from drumbeat.server.metrics.tables.read_curves import fetched, to_series
from drumbeat.server.metrics.tables.schema import series

MAX_READ = 300
"""Points of a longer series that are read, at equal distances: the means are an estimate then."""


@dataclass(frozen=True)
class PartMeans:
    """The means of series in equally long parts of their time."""

    start_ms: int
    width_ms: int
    parts: int
    series: tuple[tuple[Series, tuple[float | None, ...]], ...]
    """None = a part without a point."""


def part_means(connection: Connection, run: str, prefix: str, max_parts: int) -> PartMeans:
    """Returns the means of all series of a run whose names begin with a prefix.

    There are as many parts as most of them have points for, at most `max_parts`.
    """
    own = series.c.run == run, series.c.name.startswith(prefix, autoescape=True)
    rows = connection.execute(select(series).where(*own).order_by(series.c.id)).all()
    if not rows:
        return PartMeans(0, 1, 0, ())
    chosen = ", ".join(str(int(row.id)) for row in rows)
    first = f"SELECT MIN(at_ms) FROM points WHERE n = 0 AND series IN ({chosen})"  # noqa: S608 - integers
    start = int(connection.execute(text(first)).scalar_one())
    span = max(row.last_at_ms for row in rows) - start + 1
    parts = _part_count(max(row.length for row in rows), max_parts)
    width = max(-(-span // parts), 1)
    read = tuple((to_series(row), _means(connection, row, (start, width, parts))) for row in rows)
    return PartMeans(start, width, parts, read)


def _means(connection: Connection, row: Row[Any], grid: tuple[int, int, int]) -> tuple[float | None, ...]:
    # One statement for each series: SQLite takes many times as long for all of them in one.
    start, width, parts = grid
    where = f"series = {row.id:d} AND value IS NOT NULL"
    if row.length > MAX_READ:
        where += f" AND n IN ({', '.join(str(k * row.length // MAX_READ) for k in range(MAX_READ))})"
    statement = f"SELECT (at_ms - {start:d}) / {width:d} AS part, AVG(value) FROM points WHERE {where} GROUP BY part"  # noqa: S608 - integers
    means = {int(part): mean for part, mean in fetched(connection.exec_driver_sql(statement))}
    return tuple(means.get(part) for part in range(parts))


def _part_count(length: int, max_parts: int) -> int:
    """Returns how many parts a series is long enough for: measurements aren't made at exactly equal distances."""
    return max(1, min(max_parts, length // 2))
