"""Removing runs: at once out of sight, their points in small transactions, so that other writes need not wait."""

from __future__ import annotations

from sqlalchemy import Connection, delete, func, select, update

from drumbeat.model.metrics import run_id
from drumbeat.server.metrics.tables.schema import blocks, links, params, points, runs, series, sources, tags

MAX_POINTS = 20_000
"""Points that one transaction removes."""

_REMOVED = "removed:"
"""Before the id of a series, in place of its run: the series waits for its points to be removed."""


def remove_run(connection: Connection, run: str) -> None:
    """Removes a run, and with a job's run all that this job has written, except for points."""
    job = connection.execute(select(runs.c.job).where(runs.c.id == run)).scalar_one_or_none()
    ids = {run}
    if job and run == run_id(job):
        ids |= set(connection.execute(select(runs.c.id).where(runs.c.job == job)).scalars())
        connection.execute(delete(sources).where(sources.c.job == job))
    for table in (params, tags, links):
        connection.execute(delete(table).where(table.c.run.in_(ids)))
    connection.execute(delete(runs).where(runs.c.id.in_(ids)))
    for number in connection.execute(select(series.c.id).where(series.c.run.in_(ids))).scalars().all():
        connection.execute(update(series).where(series.c.id == number).values(run=f"{_REMOVED}{number}"))


def remove_some_points(connection: Connection) -> bool:
    """Removes points of removed runs; returns whether there may be more."""
    row = connection.execute(select(series.c.id).where(series.c.run.startswith(_REMOVED)).limit(1)).one_or_none()
    if row is None:
        return False
    of_series = points.c.series == row.id
    first = connection.execute(select(func.min(points.c.n)).where(of_series)).scalar_one()
    if first is not None:
        connection.execute(delete(points).where(of_series, points.c.n < first + MAX_POINTS))
        return True
    connection.execute(delete(blocks).where(blocks.c.series == row.id))
    connection.execute(delete(series).where(series.c.id == row.id))
    return True
