"""Streams a job's events, over broken connections and restarts of the server."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import httpx
from httpx_sse import EventSource, ServerSentEvent, SSEError

from drumbeat.client.connection import MAX_PAUSE_S, RECONNECT_TIMEOUT_S, TIMEOUT, Connection, part, unreachable
from drumbeat.client.responses import view_in
from drumbeat.model.api.jobs import End, Event, EventView, JobView, LogPiece
from drumbeat.model.errors import AwayError, UnreachableError

KINDS: dict[str, type[Event]] = {"story": EventView, "state": JobView, "log": LogPiece, "end": End}


SHORT_S = 1.0
"""How long a follower with a time limit listens at a time."""


@dataclass
class StreamPosition:
    """The position of a follower. last: the id of the last event that it saw. until: on the monotonic clock.

    away: set each time that no server answers; the caller clears it.
    """

    last: str = ""
    has_logs: bool = True
    until: float | None = None
    away: threading.Event = field(default_factory=threading.Event)

    @property
    def left_s(self) -> float:
        """The remaining time; infinite without a limit."""
        return math.inf if self.until is None else self.until - time.monotonic()

    @property
    def is_over(self) -> bool:
        """Whether the time is up."""
        return self.left_s <= 0

    def timeout(self) -> httpx.Timeout:
        """How long a silent server is waited for."""
        return TIMEOUT if self.until is None else httpx.Timeout(60.0, connect=5.0, read=SHORT_S)

    def headers(self) -> dict[str, str]:
        """The headers with which the server continues after the position."""
        return {"Accept": "text/event-stream", **({"Last-Event-ID": self.last} if self.last else {})}


def follow(connection: Connection, job: str, place: StreamPosition) -> Iterator[Event]:
    """Yields events up to the end or the time limit, each once. Looks for a lost server for `RECONNECT_TIMEOUT_S`."""
    try:
        yield from _follow(connection, job, place)
    finally:
        connection.close()


def _follow(connection: Connection, job: str, place: StreamPosition) -> Iterator[Event]:
    wait = ReconnectPause()
    while not place.is_over:
        try:
            for event in _events(connection, job, place):
                wait.reset()
                yield event
                if isinstance(event, End) or place.is_over:
                    return
        except httpx.TransportError as error:
            if place.until is not None and isinstance(error, httpx.ReadTimeout):
                continue
            _come_back(connection, place, wait, unreachable(error, connection.line.url))
        except (UnreachableError, AwayError) as error:  # The server is back before its database.
            _come_back(connection, place, wait, UnreachableError(error.what, where=error.where, fix=error.fix))
        else:
            _come_back(
                connection, place, wait, UnreachableError("the server ended the stream", where=connection.line.url)
            )


def _events(connection: Connection, job: str, place: StreamPosition) -> Iterator[Event]:
    path = f"/jobs/{part(job)}/events"
    options = {"params": {"logs": json.dumps(place.has_logs)}, "headers": place.headers(), "timeout": place.timeout()}
    with connection.streaming(path, **options) as response:
        try:
            for message in EventSource(response).iter_sse():
                if event := read(message):
                    place.last = message.id
                    yield event
        except SSEError:
            raise UnreachableError("what answers isn't a drumbeat server", where=str(response.request.url)) from None


def read(message: ServerSentEvent) -> Event | None:
    """The event; None for a kind that this version doesn't know."""
    kind = KINDS.get(message.event)
    return None if kind is None else view_in(kind, message.data)


def _come_back(connection: Connection, place: StreamPosition, wait: ReconnectPause, trouble: UnreachableError) -> None:
    """Opens a new connection; raises the failure after `RECONNECT_TIMEOUT_S`. Returns without one when time is up."""
    while not place.is_over:
        place.away.set()
        wait.pause(trouble, place.left_s)
        try:
            connection.reopen()
        except (UnreachableError, AwayError) as error:
            trouble = UnreachableError(error.what, where=error.where, fix=error.fix)
        else:
            return


class ReconnectPause:
    """Growing pauses while no server answers, up to a limit in all."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """The server answered."""
        self._next_s, self._since = 0.05, None

    _since: float | None

    def pause(self, trouble: UnreachableError, most_s: float = math.inf) -> None:
        """Waits a little, `most_s` at most. Raises `trouble` after `RECONNECT_TIMEOUT_S` without an answer."""
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        if now - self._since > RECONNECT_TIMEOUT_S:
            fix = "A job that runs continues without its server; `drumbeat server start` starts it."
            raise UnreachableError(trouble.what, where=trouble.where, fix=fix)
        time.sleep(max(min(self._next_s, most_s), 0))
        self._next_s = min(2 * self._next_s, MAX_PAUSE_S)
