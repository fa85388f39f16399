"""A connection of the scoring server: of a client, or to the router, which sends requests by it."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, cast

from drumbeat.scoring.messages import LAST_CHUNK, ScoringAnswer, ScoringRequest, chunk, error_answer, render_head
from drumbeat.scoring.request_ids import SERVER_VERSION, request_ids
from drumbeat.scoring.request_reader import MalformedRequestError, RequestReader
from drumbeat.scoring.scorer import Scorer
from drumbeat.scoring.worker_threads import Work, WorkerThreads

HIGH_WATER = 1 << 20
"""Bytes that a slow client may leave unread before its stream waits."""
_SLOW_CLIENT_S = 60.0
"""After this time without a byte taken, a client of a stream is given up."""
DRAIN_ANSWER = (
    b"HTTP/1.1 503 Service Unavailable\r\nDrumbeat-Drain: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
)
"""Says to the router that a request that it may just have sent hasn't been taken, and that none will be."""
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class LoopCalls:
    """Passes calls of worker threads to the event loop: one wake-up for all that come at once."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._calls: deque[Callable[[], None]] = deque()
        self._lock = threading.Lock()
        self._is_awake = False

    def add(self, call: Callable[[], None]) -> None:
        """Has the loop call this soon. May be called from any thread."""
        with self._lock:
            self._calls.append(call)
            must_wake, self._is_awake = not self._is_awake, True
        if must_wake:
            try:
                self._loop.call_soon_threadsafe(self._run)
            except RuntimeError:
                return  # The loop has ended with the process.

    def _run(self) -> None:
        with self._lock:
            calls, self._calls, self._is_awake = self._calls, deque(), False
        for call in calls:
            call()


class ScoringConnection(asyncio.Protocol):
    """Answers the requests of one connection, one after another."""

    def __init__(self, scorer: Scorer, threads: WorkerThreads, calls: LoopCalls) -> None:
        self._scorer, self._threads, self._calls = scorer, threads, calls
        self._reader = RequestReader()
        self._waiting: deque[ScoringRequest] = deque()
        self._transport: asyncio.Transport | None = None
        self._answering: _AnswerWriter | None = None
        self.can_write = threading.Event()
        self.can_write.set()
        self.is_draining = False
        self.is_lost = asyncio.Event()
        self._ends_after_answer = False
        self._refusal: ScoringAnswer | None = None
        """The answer to a request that can't be read."""
        self.on_control: Callable[[ScoringRequest], ScoringAnswer | None] | None = None
        """Answers requests of the router itself."""

    # --- what the event loop calls --------------------------------------------------------------------------------
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(HIGH_WATER)

    def data_received(self, data: bytes) -> None:
        if self.is_draining:
            return
        self._reader.feed(data)
        try:
            self._waiting.extend(self._reader.requests())
        except MalformedRequestError as error:
            # What comes after it can't be read either: the connection ends with the answers to the requests before it.
            self.is_draining = True
            self._refusal = error_answer(error.status, error.message)
            if self._answering is None:
                self._next()
            return
        if self._reader.awaits_continue and not self._waiting:
            self._reader.awaits_continue = False
            self.write(_CONTINUE)
        if self._answering is None:
            self._next()

    def pause_writing(self) -> None:
        self.can_write.clear()

    def resume_writing(self) -> None:
        self.can_write.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.can_write.set()
        self.is_lost.set()
        if self._answering is not None:
            self._answering.abandon()

    # --- requests ---------------------------------------------------------------------------------------------------
    def _next(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if not self._waiting:
            if self._refusal is not None:
                self._write_whole(self._refusal, None)
            return
        request = self._waiting.popleft()
        writer = _AnswerWriter(self, request, self._calls)
        ids = request_ids(request)
        if isinstance(ids, ScoringAnswer):
            writer.send_now(ids)
            return
        writer.ids = ids
        answer = self.on_control(request) if self.on_control is not None else None
        answer = answer or self._scorer.immediate(request)
        if answer is not None:
            writer.send_now(answer)
            return
        self._answering = writer
        writer.work = self._threads.put(request, writer)

    @property
    def is_busy(self) -> bool:
        """Whether a request is being answered."""
        return self._answering is not None

    @property
    def work(self) -> Work | None:
        """The request that is being answered."""
        return None if self._answering is None else self._answering.work

    def drain(self) -> None:
        """Takes no more requests: an idle connection says so and waits for its other end to close it."""
        if self._answering is not None or self.is_draining:
            self._ends_after_answer = True
            return
        self.is_draining = True
        self.write(DRAIN_ANSWER)
        if self._transport is not None and self._transport.can_write_eof():
            self._transport.write_eof()

    def close(self) -> None:
        """Closes the connection."""
        if self._transport is not None:
            self._transport.close()

    # --- answers ----------------------------------------------------------------------------------------------------
    def write(self, data: bytes) -> None:
        """Writes bytes, unless the connection is lost."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def _write_whole(self, answer: ScoringAnswer, request: ScoringRequest | None) -> None:
        body = answer.body if isinstance(answer.body, bytes) else b""
        closes = self._ends_after_answer or request is None or not request.keeps_connection
        try:
            head = render_head(answer, length=len(body), is_chunked=False, closes=closes)
        except ValueError as error:
            failure = error_answer(500, f"The answer can't be sent: {error}.")
            body = failure.body if isinstance(failure.body, bytes) else b""
            head = render_head(failure, length=len(body), is_chunked=False, closes=closes)
        self.write(head if request is not None and request.method == "HEAD" else head + body)
        if closes and self._transport is not None:
            self._transport.close()

    def finish(self, answer: ScoringAnswer, request: ScoringRequest) -> None:
        """Writes a whole answer, and takes the next request."""
        self._write_whole(answer, request)
        self._answering = None
        self._next()

    def forget(self) -> None:
        """The request of a lost connection hasn't run, and won't."""
        self._answering = None

    def begin_stream(self, answer: ScoringAnswer, request: ScoringRequest) -> None:
        """Writes the head of an answer whose pieces follow."""
        closes = self._ends_after_answer or not request.keeps_connection or request.is_http_1_0
        try:
            head = render_head(answer, length=None, is_chunked=not request.is_http_1_0, closes=closes)
        except ValueError as error:
            self.end_stream(request, is_whole=False)
            self._write_whole(error_answer(500, f"The answer can't be sent: {error}."), None)
            return
        self.write(head)

    def end_stream(self, request: ScoringRequest, *, is_whole: bool) -> None:
        """Ends an answer of pieces. One that was cut off ends with the connection, so that it doesn't look whole."""
        self._answering = None
        if self._transport is None:
            return
        if not is_whole:
            self._transport.abort()
            return
        if not request.is_http_1_0:
            self.write(LAST_CHUNK)
        if self._ends_after_answer or not request.keeps_connection or request.is_http_1_0:
            self._transport.close()
        else:
            self._next()


class _AnswerWriter:
    """Implements `worker_threads.AnswerSink` for one request."""

    def __init__(self, connection: ScoringConnection, request: ScoringRequest, calls: LoopCalls) -> None:
        self._connection, self._request, self._calls = connection, request, calls
        self.ids: list[tuple[str, str]] = []
        self.work: Work | None = None
        self._is_gone = False

    def abandon(self) -> None:
        """Notes that the client is gone."""
        self._is_gone = True
        if self.work is not None:
            self.work.is_abandoned = True

    def send_now(self, answer: ScoringAnswer) -> None:
        """Sends an answer from the event loop."""
        self._connection.finish(self._complete(answer), self._request)

    def send(self, answer: ScoringAnswer) -> None:
        complete = self._complete(answer)
        if answer.is_streamed:
            self._calls.add(lambda: self._connection.begin_stream(complete, self._request))
        else:
            self._calls.add(lambda: self._connection.finish(complete, self._request))

    def send_piece(self, piece: bytes) -> bool:
        if self._is_gone or not self._connection.can_write.wait(_SLOW_CLIENT_S) or self._is_gone:
            return False
        data = piece if self._request.is_http_1_0 else chunk(piece)
        self._calls.add(lambda: self._connection.write(data))
        return True

    def end(self, *, is_whole: bool) -> None:
        self._calls.add(lambda: self._connection.end_stream(self._request, is_whole=is_whole))

    def drop(self) -> None:
        self._calls.add(self._connection.forget)

    def _complete(self, answer: ScoringAnswer) -> ScoringAnswer:
        if not answer.has_ids:
            return answer
        given: set[Any] = {name.lower() for name, _ in self.ids}
        answer.headers = [(name, value) for name, value in answer.headers if name.lower() not in given]
        answer.headers += [*self.ids, ("x-ms-server-version", SERVER_VERSION)]
        return answer
