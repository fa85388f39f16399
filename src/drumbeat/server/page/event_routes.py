"""The event stream of a page: the jobs that have changed, and everything of one job.

A browser opens few connections to a server, so a page has a single stream for everything that it shows.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Annotated

from anyio import to_thread
from fastapi import Header, Query

from drumbeat.model.api.jobs import JobView
from drumbeat.model.api.page import JobChanges
from drumbeat.model.errors import NotFoundError
from drumbeat.server.context import ContextOf, ServerContext, away, current
from drumbeat.server.fanout import Fanout
from drumbeat.server.jobs.event_stream import HEARTBEAT_S, PULLS, EventStream, Follower, place_behind, serializer_for
from drumbeat.server.jobs.job_views import job_view, listed_job
from drumbeat.server.loop.bus import JOB
from drumbeat.server.routing import new_router

INTERVAL_S = 0.2
"""Pause between two batches. Changes within it are sent together."""
MAX_CHANGES = 100
"""Maximum number of jobs in one batch."""

router = new_router("/api/v1", tags=["events"])


@router.get("/events", response_class=EventStream)
async def watch_jobs(
    *,
    context: ContextOf,
    job: Annotated[str, Query(max_length=255, description="A job to follow in full.")] = "",
    after: Annotated[int, Query(ge=0, description="Send its logs after this position.")] = 0,
    story: Annotated[int, Query(ge=0, description="Send its events after this number.")] = 0,
    logs: bool = True,
    last_event_id: Annotated[str, Header()] = "",
) -> EventStream:
    """Streams `jobs` with changed jobs, and `story`, `state`, `log` and `end` of one job, as in its own stream."""
    followed = (await away(lambda: current(context.control, job))).job if job else None
    place = place_behind(last_event_id, followed) if last_event_id else (after, story)
    follower = Follower(context, followed, *place, has_logs=logs) if followed else None
    return EventStream(_events(ChangeReader(context, follower), context.fanout), headers={"Cache-Control": "no-store"})


async def _events(reader: ChangeReader, fanout: Fanout) -> AsyncIterator[bytes]:
    with fanout.watch(JOB) as watch:
        yield b": watching\n\n"
        is_first = True
        while not fanout.is_closing:
            pulled, names = time.monotonic(), watch.take()
            batch = await to_thread.run_sync(reader.pull, names, is_first, limiter=PULLS)
            is_first = False
            if batch:
                yield batch
            if not reader.has_more and not await watch.signal.wait(HEARTBEAT_S):
                yield b": still here\n\n"
            await asyncio.sleep(max(0.0, pulled + INTERVAL_S - time.monotonic()))


class ChangeReader:
    """The position of one reader: its versions of jobs, and its position in the job that it follows."""

    def __init__(self, context: ServerContext, follower: Follower | None) -> None:
        self._control, self._notice_of, self._follower = context.control, context.storage_notice, follower
        self._sent: dict[str, JobView] = {}

    @property
    def has_more(self) -> bool:
        """Whether the next pull returns more without a change."""
        return self._follower is not None and self._follower.has_more and not self._follower.is_done

    def pull(self, names: set[str], is_first: bool) -> bytes:
        """Returns the events since the last pull. names: jobs that may have changed."""
        changes = self._changes(sorted(names))
        batch = b""
        if changes:
            batch = b"event: jobs\ndata: " + serializer_for(JobChanges).dump_json(changes) + b"\n\n"
        follower = self._follower
        if follower is None or follower.is_done:
            return batch
        if not (is_first or follower.has_more or follower.job in names):
            return batch
        try:
            return follower.pull() + batch
        except NotFoundError:  # The job was deleted, which is part of the batch.
            self._follower = None
            return batch

    def _changes(self, names: list[str]) -> JobChanges | None:
        """Returns the changes of these jobs. Logs and metrics notify, too, but don't change the job itself."""
        metrics = self._control.metrics.highlights(names[:MAX_CHANGES])
        changed: list[JobView] = []
        removed: list[str] = []
        for name in names[:MAX_CHANGES]:
            try:
                record = current(self._control, name)
            except NotFoundError:
                removed.append(name)
                self._sent.pop(name, None)
                continue
            is_open = self._follower is not None and self._follower.job == name
            view = (job_view if is_open else listed_job)(record, self._notice_of(record.job), metrics.get(name))
            if self._sent.get(name) != view:
                self._sent[name] = view
                changed.append(view)
        if not changed and not removed and len(names) <= MAX_CHANGES:
            return None
        return JobChanges(tuple(changed), tuple(removed), is_partial=len(names) > MAX_CHANGES)
