"""Reads the events of many jobs at once, without their messages, for sums over them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, or_, select

from drumbeat.core.lifecycle.events import JobEvent
from drumbeat.model.states import Reason, State
from drumbeat.server.database.records import History
from drumbeat.server.database.schema import job_events, jobs
from drumbeat.server.loop.lease_tables import UNFINISHED

_NAMES_AT_ONCE = 500


def read(
    connection: Connection, names: Sequence[str], since: datetime | None, *, has_children: bool = True
) -> list[History]:
    """Returns the histories of the jobs with these names, or of jobs since a time, oldest first.

    has_children: also those of the children of the named jobs.
    """
    histories: dict[str, tuple[str, str, list[JobEvent]]] = {}
    for start in range(0, max(len(names), 1), _NAMES_AT_ONCE):
        chosen = _chosen(names[start : start + _NAMES_AT_ONCE], since, has_children=has_children)
        columns = (
            jobs.c.name,
            jobs.c.experiment,
            jobs.c.person,
            job_events.c.at,
            job_events.c.state,
            job_events.c.reason,
        )
        query = select(*columns, job_events.c.attempt, job_events.c.round, job_events.c.since).join(
            job_events, job_events.c.job == jobs.c.name
        )
        for row in connection.execute(query.where(*chosen).order_by(jobs.c.number, job_events.c.id)):
            line = JobEvent(row.at, State(row.state), Reason(row.reason), "", row.attempt, row.round, row.since)
            histories.setdefault(row.name, (row.experiment, row.person, []))[2].append(line)
    return [History(job, experiment, user, tuple(lines)) for job, (experiment, user, lines) in histories.items()]


def _chosen(names: Sequence[str], since: datetime | None, *, has_children: bool) -> list[ColumnElement[bool]]:
    chosen: list[ColumnElement[bool]] = []
    if names:
        own = jobs.c.name.in_(names)
        chosen.append(or_(own, jobs.c.parent.in_(names)) if has_children else own)
    if since is not None:
        latest = select(job_events.c.job).where(job_events.c.at >= since)
        chosen.append(or_(jobs.c.state.in_(UNFINISHED), jobs.c.name.in_(latest)))
    return chosen
