"""`GET /api/v1/jobs/{name}/events`: a job's events, state and logs as they happen."""

from __future__ import annotations

from typing import Annotated

from fastapi import Header, Query

from drumbeat.server.context import ContextOf, away, current
from drumbeat.server.jobs.event_stream import EventStream, Follower, events, place_behind
from drumbeat.server.routing import new_router

router = new_router("/api/v1/jobs/{name}", tags=["jobs"])


@router.get("/events", response_class=EventStream)
async def follow(
    *,
    name: str,
    context: ContextOf,
    after: Annotated[int, Query(ge=0)] = 0,
    story: Annotated[int, Query(ge=0)] = 0,
    logs: bool = True,
    last_event_id: Annotated[str, Header()] = "",
) -> EventStream:
    """Streams the events `story`, `state` and `log`, and `end` when the job is over and everything has been sent.

    A job is over when it has ended and its outputs are published, or have been delayed for half a minute.
    """
    job = (await away(lambda: current(context.control, name))).job
    place = place_behind(last_event_id, job) if last_event_id else (after, story)
    follower = Follower(context, job, *place, has_logs=logs)
    return EventStream(events(follower, context.fanout), headers={"Cache-Control": "no-store"})
