"""A job's logs, for readers that don't follow; those that do read them as events (`job_events.py`)."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from drumbeat.model.api.jobs import LogPage
from drumbeat.server.context import ControlOf
from drumbeat.server.jobs.log_reader import LogReader
from drumbeat.server.jobs.log_tail import read_tail
from drumbeat.server.routing import new_router

router = new_router("/api/v1", tags=["jobs"])

TAIL = "Instead of what comes after a position: the end, about so many bytes; the first piece begins with a whole line."


@router.get("/jobs/{name}/logs")
def logs(
    name: str,
    control: ControlOf,
    after: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=4 << 20, description="Bytes, about.")] = 1 << 20,
    tail: Annotated[int, Query(ge=0, le=4 << 20, description=TAIL)] = 0,
) -> LogPage:
    """Pieces of all ranks' logs in the order of their arrival, for readers that don't follow."""
    control.store.load(name)
    if tail:
        last = read_tail(control.artifacts, name, tail)
        return LogPage(tuple(last.pieces), last.end, last.end, last.first)
    reader = LogReader(control.artifacts, name, after)
    end = control.artifacts.log_end(name)
    return LogPage(tuple(reader.read(limit)), reader.position, end)
