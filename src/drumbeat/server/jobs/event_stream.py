"""Server-sent events: a job's events, states and logs as they happen, to any number of followers.

A follower pulls at its own pace: the server holds one batch for it, never a queue. The id of an event is
`<position>.<last event>`, followed by `.<first version>` if a deleted job had the job's name. A follower that sends the
last id as `Last-Event-ID` continues after it, or starts over if it was another job's.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator
from functools import cache
from typing import Any

from anyio import CapacityLimiter, to_thread
from pydantic import TypeAdapter
from starlette.responses import StreamingResponse

from drumbeat.core.lifecycle.exit_code import exit_code
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.lifecycle.output_publication import is_over
from drumbeat.model.api.jobs import End, Event, JobView
from drumbeat.model.errors import NotFoundError, RefusedError
from drumbeat.model.metrics import MetricHighlights
from drumbeat.server.context import ServerContext, current
from drumbeat.server.database.records import Record
from drumbeat.server.fanout import Fanout
from drumbeat.server.jobs.job_views import event_lines, job_view
from drumbeat.server.jobs.log_reader import LogReader
from drumbeat.server.loop.bus import job_topic

BATCH = 256 << 10
"""Bytes of logs in one pull."""
PAUSE_S = 0.02
"""Pause between two pulls of a follower. Whatever arrives within it is sent together."""
HEARTBEAT_S = 15.0
METRICS_INTERVAL_S = 0.5
"""Minimum time between two readings of a job's metrics, because logs arrive far more often."""
PULLS = CapacityLimiter(2)
"""Threads that pull. More threads would only contend for Python's interpreter lock and slow down everything else."""

_EVENT_ID = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?", re.ASCII)


@cache
def serializer_for(kind: type[Any]) -> TypeAdapter[Any]:
    """Returns the JSON serializer of a class. It is created when the first value is sent."""
    return TypeAdapter(kind)


class EventStream(StreamingResponse):
    """A stream of events, as a class of its own for the description of the API."""

    media_type = "text/event-stream"


def place_behind(event_id: str, job: Job | None) -> tuple[int, int]:
    """Parses a stream id into position and number of the last event; (0, 0) for a deleted job of the same name."""
    match = _EVENT_ID.fullmatch(event_id)
    if match is None:
        raise RefusedError("this isn't the id of an event of this stream", where=f"Last-Event-ID: {event_id[:80]}")
    position, last_event, first_version = (int(one or 1) for one in match.groups())
    return (0, 0) if job and first_version != job.first_version else (position, last_event)


async def events(follower: Follower, fanout: Fanout) -> AsyncIterator[bytes]:
    """Yields batches as they arrive, and a comment now and then while nothing does."""
    with fanout.signal(job_topic(follower.job)) as signal:
        while not fanout.is_closing:
            pulled = time.monotonic()
            if batch := await to_thread.run_sync(follower.pull, limiter=PULLS):
                yield batch
            if follower.is_done:
                return
            if follower.has_more:
                continue
            if not await signal.wait(HEARTBEAT_S):
                yield b": still here\n\n"
            await asyncio.sleep(max(0.0, pulled + PAUSE_S - time.monotonic()))


class Follower:
    """The position of one reader in a job. `pull` blocks; one thread at a time may call it."""

    def __init__(self, context: ServerContext, job: Job, position: int, last_event: int, *, has_logs: bool) -> None:
        self.control, self._storage_notice, self.job, self.last_event = (
            context.control,
            context.storage_notice,
            job.name,
            last_event,
        )
        self._first_version = job.first_version
        self.reader = LogReader(context.control.artifacts, job.name, position)
        self.has_logs = has_logs
        self.has_more = self.is_done = False
        self._seen: tuple[int, str, MetricHighlights | None] = (-1, "", None)
        self._metrics: MetricHighlights | None = None
        self._metrics_due = 0.0
        self._state: JobView | None = None

    def pull(self) -> bytes:
        """Returns the events since the last pull; b"" = none. All logs of a job come before the event of its end.

        Raises NotFoundError when the job was deleted.
        """
        record = current(self.control, self.job)
        if record.job.first_version != self._first_version:
            raise NotFoundError(f"job {self.job} was deleted, and another job has its name")
        before = self.reader.position
        logs = self._logs()
        self.has_more = self.reader.position != before
        if record.job.state.is_terminal and self.has_more:
            return b"".join(logs)
        news = self._news(record)
        self.is_done = is_over(record.job)
        return b"".join([*logs, *news, *(self._end(record) if self.is_done else [])])

    def _logs(self) -> list[bytes]:
        if not self.has_logs:
            return []
        return [self._event("log", piece, position=piece.position) for piece in self.reader.read(BATCH)]

    def _news(self, record: Record) -> list[bytes]:
        notice = self._storage_notice(record.job)
        self._read_metrics(record)
        if (record.version, notice, self._metrics) == self._seen:
            return []
        self._seen = (record.version, notice, self._metrics)
        messages: list[bytes] = []
        for line in event_lines(self.control.store.events(self.job), self.last_event):
            self.last_event = line.n
            messages.append(self._event("story", line))
        view = job_view(record, notice, self._metrics)
        if view != self._state:
            self._state = view
            messages.append(self._event("state", view))
        return messages

    def _read_metrics(self, record: Record) -> None:
        now = time.monotonic()
        if now >= self._metrics_due or record.job.state.is_terminal:
            self._metrics_due = now + METRICS_INTERVAL_S
            self._metrics = self.control.metrics.highlights([self.job]).get(self.job)

    def _end(self, record: Record) -> list[bytes]:
        rest = [self._event("log", piece) for piece in self.reader.rest()]
        end = End(record.job.state, exit_code(record.job))
        return [*rest, self._event("end", end)]

    def _event(self, kind: str, event: Event, position: int | None = None) -> bytes:
        at = self.reader.position if position is None else position
        data = serializer_for(type(event)).dump_json(event)
        job = f".{self._first_version}" if self._first_version > 1 else ""
        return f"event: {kind}\ndata: {data.decode()}\nid: {at}.{self.last_event}{job}\n\n".encode()
