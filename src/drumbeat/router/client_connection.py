"""A client's connection: requests are admitted by their head, read whole within limits, and answered in their order."""

from __future__ import annotations

import asyncio
import json
import socket
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import unquote

import httptools

from drumbeat.model.routing_table import RoutingTable
from drumbeat.router.exchange import AnswerReceiver, Exchange
from drumbeat.router.pool import PermitPool
from drumbeat.router.replica_connection import as_transport
from drumbeat.router.traffic import TrafficSplit

MAX_HEAD_BYTES = 64 << 10
MAX_PIPELINED = 16
MAX_CLIENTS = 10_000
HEAD_TIMEOUT_S, BODY_TIMEOUT_S, IDLE_TIMEOUT_S = 10.0, 30.0, 120.0
"""For a begun head, between two pieces of a body, and between two requests."""
SLOW_READER_S = 60.0
"""After this time without room for another byte, a client that reads its answer slowly is given up."""
ANSWER_BUFFER = 4 << 20
"""Bytes of answers that are kept for a slow client, so that it doesn't keep a replica."""
_LINGER_S = 2.0
_DROPPED = frozenset({
    b"connection", b"keep-alive", b"transfer-encoding", b"te", b"trailer", b"upgrade", b"content-length", b"expect",
    b"authorization", b"proxy-authorization", b"proxy-connection", b"azureml-model-deployment",
})  # fmt: skip
"""Headers that don't go on: those of the connection, and the key, which scripts mustn't see."""
_REASONS = {200: b"OK", 400: b"Bad Request", 401: b"Unauthorized", 404: b"Not Found", 408: b"Request Timeout",
            413: b"Content Too Large", 424: b"Failed Dependency", 429: b"Too Many Requests",
            431: b"Request Header Fields Too Large", 500: b"Internal Server Error", 502: b"Bad Gateway",
            503: b"Service Unavailable"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """What the head of a request says: where it may go, or why it may not."""

    path: bytes = b""
    endpoint: str = ""
    named: str = ""
    """The deployment that the client names."""
    split: TrafficSplit | None = None
    lasts_for: object = None
    """The table for which equal heads are admitted alike."""
    refusal: tuple[int, str] | None = None


@dataclass(slots=True)
class ClientRequest:
    """A request from its head to its answer."""

    method: bytes = b""
    goal: RequestTarget | None = None
    pool: PermitPool | None = None
    """Of the deployment that answers it."""
    head: bytes = b""
    """As the replica gets it."""
    body: bytes = b""
    keeps_connection: bool = True
    is_http_1_0: bool = False
    refusal: tuple[int, str] | None = None


class RequestRouter(Protocol):
    """What a client's connection asks of the router."""

    is_leaving: bool
    clients: set[ClientConnection]
    now: Callable[[], float]
    """The monotonic time in seconds."""
    table: RoutingTable

    def admit(self, target: bytes, headers: dict[bytes, bytes], listener_endpoint: str) -> RequestTarget:
        """Finds the endpoint of a request, and whether it may reach it."""
        ...

    def choose(self, goal: RequestTarget) -> PermitPool | None:
        """The deployment for one request; None = none has traffic."""
        ...

    def start(self, request: ClientRequest, receiver: AnswerReceiver) -> Exchange | None:
        """Sends a request on its way. None = it has been answered already."""
        ...

    def hold(self, size: int) -> None:
        """Counts bytes of a body that is kept."""
        ...

    def release(self, size: int) -> None:
        """Counts bytes that are kept no more."""
        ...

    @property
    def is_full(self) -> bool:
        """Whether no more bodies are kept."""
        ...


class ClientConnection(asyncio.Protocol):
    """Implements `exchange.AnswerReceiver` for its requests. endpoint: of the listener, "" = any."""

    def __init__(self, router: RequestRouter, endpoint: str) -> None:
        self._router, self._endpoint = router, endpoint
        self._parser = httptools.HttpRequestParser(self)
        self._ready: deque[ClientRequest] = deque()
        self._answering: ClientRequest | None = None
        self._exchange: Exchange | None = None
        self._target = b""
        self._lines: list[bytes] = []
        """Headers that go on."""
        self._own: dict[bytes, bytes] = {}
        """Headers that are for the router."""
        self._head_bytes = self._body_bytes = self._held_bytes = 0
        self._last_key: tuple[bytes, bytes | None, bytes | None] | None = None
        self._last_goal: RequestTarget | None = None
        self._pieces: list[bytes] = []
        self._reading: ClientRequest | None = None
        self._is_in_head = self._is_discarding = self._is_chunked = False
        self._paused_s = 0.0
        self.heard_s = router.now()

    # --- what the event loop calls ----------------------------------------------------------------------------------
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = as_transport(transport)
        self._transport.set_write_buffer_limits(ANSWER_BUFFER)
        connected: Any = transport.get_extra_info("socket")
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._router.clients.add(self)
        if len(self._router.clients) > MAX_CLIENTS:
            self._refuse_connection(503, "The router has as many connections as it may: try again later.")

    def connection_lost(self, exc: Exception | None) -> None:
        self._router.clients.discard(self)
        self._router.release(self._held_bytes)
        self._held_bytes = 0
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.abandon()

    def data_received(self, data: bytes) -> None:
        self.heard_s = self._router.now()
        if self._is_discarding:
            return
        self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._refuse_connection(400, "This connection can't be upgraded.")
            return
        except httptools.HttpParserError:
            self._refuse_connection(400, "The request can't be read.")
            return
        if self._is_in_head and self._head_bytes > MAX_HEAD_BYTES:
            self._refuse_connection(431, f"The head of a request has at most {MAX_HEAD_BYTES} bytes.")

    def pause_writing(self) -> None:
        self._paused_s = self._router.now()
        if self._exchange is not None and self._exchange.connection is not None:
            self._exchange.connection.pause()

    def resume_writing(self) -> None:
        self._paused_s = 0.0
        if self._exchange is not None and self._exchange.connection is not None:
            self._exchange.connection.resume()

    # --- the parser -------------------------------------------------------------------------------------------------
    def on_message_begin(self) -> None:
        self._target, self._lines, self._own, self._pieces = b"", [], {}, []
        self._is_in_head, self._head_bytes, self._body_bytes, self._reading = True, 0, 0, None

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        low = name.lower()
        if low in _DROPPED:
            self._own[low] = value
        else:
            self._lines.append(b"%b: %b\r\n" % (low, value))

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        parser, own = self._parser, self._own
        request = ClientRequest(parser.get_method())
        request.keeps_connection = parser.should_keep_alive()
        request.is_http_1_0 = parser.get_http_version() == "1.0"
        self._reading = request
        length = int(own.get(b"content-length", b"0"))
        self._place(request, length)
        if request.refusal is not None:
            # A body that nothing needs isn't waited for: the connection ends after the answer.
            has_body = b"transfer-encoding" in own or length > 0
            if has_body:
                self._refuse_body(request)
        elif own.get(b"expect", b"").lower() == b"100-continue":
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _place(self, request: ClientRequest, length: int) -> None:
        """Finds the deployment of a request, or why it isn't taken."""
        own = self._own
        # Most clients repeat one head: what was found for the last one holds while its key and the table do.
        key = self._target, own.get(b"authorization"), own.get(b"azureml-model-deployment")
        goal = self._last_goal
        if goal is None or key != self._last_key or goal.lasts_for is not self._router.table:
            goal = self._router.admit(self._target, own, self._endpoint)
            self._last_key, self._last_goal = key, goal if goal.lasts_for is not None else None
        request.goal, request.refusal = goal, goal.refusal
        if request.refusal is not None:
            return
        request.pool = pool = self._router.choose(goal)
        if pool is None:
            words = f"No deployment of {goal.endpoint} has traffic. Give one: traffic {{DEPLOYMENT: 100}}."
            request.refusal = 404, words
        elif length > pool.route.max_body_bytes:
            request.refusal = 413, f"The body has {length} bytes; at most {pool.route.max_body_bytes} are taken."

    def on_body(self, data: bytes) -> None:
        request = self._reading
        if self._is_discarding or request is None or request.pool is None:
            return
        self._body_bytes += len(data)
        self._held_bytes += len(data)
        self._router.hold(len(data))
        self._pieces.append(data)
        limit = request.pool.route.max_body_bytes
        if self._body_bytes > limit:
            request.refusal = 413, f"The body has more than the {limit} bytes that are taken."
        elif self._router.is_full:
            request.refusal = 429, "The router holds as many bodies as it may: try again later."
        else:
            return
        self._refuse_body(request)

    def _refuse_body(self, request: ClientRequest) -> None:
        """Answers before the body is complete, which isn't read any more."""
        request.keeps_connection = False
        self._pieces = []
        self._is_discarding = True
        self._add(request)

    def on_message_complete(self) -> None:
        request = self._reading
        if self._is_discarding or request is None:
            return
        request.body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        if request.goal is not None and request.refusal is None:
            line = b"%b %b HTTP/1.1\r\n" % (request.method, request.goal.path)
            request.head = line + b"".join(self._lines) + b"content-length: %d\r\n\r\n" % len(request.body)
        self._pieces, self._reading = [], None
        self._add(request)

    # --- requests ---------------------------------------------------------------------------------------------------
    def _add(self, request: ClientRequest) -> None:
        if self._answering is not None:
            self._ready.append(request)
            if len(self._ready) > MAX_PIPELINED:
                self._transport.abort()
            return
        self._start(request)

    def _start(self, request: ClientRequest) -> None:
        self._answering = request
        if request.refusal is not None:
            self.refuse(*request.refusal)
        else:
            exchange = self._router.start(request, self)
            if self._answering is request:  # Else it has been refused at once.
                self._exchange = exchange

    def _finish(self) -> None:
        """The answer is sent."""
        request, self._answering, self._exchange = self._answering, None, None
        if request is None:
            return
        if request.body:
            self._held_bytes -= len(request.body)
            self._router.release(len(request.body))
        if not request.keeps_connection:
            self._close_slowly()
        elif self._ready:
            self._start(self._ready.popleft())

    def _close_slowly(self) -> None:
        """Closes after the client has read: closing at once would reset what it still sends, and its answer with it."""
        if not self._is_discarding:
            self._transport.close()
            return
        if self._transport.can_write_eof():
            self._transport.write_eof()
        asyncio.get_running_loop().call_later(_LINGER_S, self._transport.abort)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is read or answered."""
        return self._answering is None and not self._is_in_head and self._reading is None

    def close_if_idle(self) -> None:
        """Closes between two requests."""
        if self.is_idle:
            self._transport.close()

    def end_overdue(self, now: float) -> None:
        """Ends the connection of a client that is too slow."""
        silent_s = now - self.heard_s
        if self._paused_s:
            if now - self._paused_s > SLOW_READER_S:
                self._transport.abort()
        elif self._is_in_head:
            if silent_s > HEAD_TIMEOUT_S:
                self._refuse_connection(408, "The head of the request didn't come in time.")
        elif self._reading is not None and self._answering is None:
            if silent_s > BODY_TIMEOUT_S:
                self._refuse_connection(408, "The body of the request didn't come in time.")
        elif self._answering is None and silent_s > IDLE_TIMEOUT_S:
            self._transport.close()

    # --- answers ----------------------------------------------------------------------------------------------------
    def begin(self, status: int, headers: list[tuple[bytes, bytes]], length: int | None) -> None:
        request = self._answering
        if request is None:
            return
        if self._router.is_leaving:
            request.keeps_connection = False
        parts = [b"HTTP/1.1 %d %b\r\n" % (status, _REASONS.get(status, b"Status"))]
        parts += [b"%b: %b\r\n" % header for header in headers]
        self._is_chunked = length is None and not request.is_http_1_0
        if length is not None:
            parts.append(b"content-length: %d\r\n" % length)
        elif self._is_chunked:
            parts.append(b"transfer-encoding: chunked\r\n")
        else:
            request.keeps_connection = False
        if not request.keeps_connection:
            parts.append(b"connection: close\r\n")
        elif request.is_http_1_0:
            parts.append(b"connection: keep-alive\r\n")
        parts.append(b"\r\n")
        self._head = b"".join(parts)

    _head = b""
    """Of an answer that has begun: it is written with its first piece."""

    def piece(self, data: bytes) -> None:
        if self._answering is not None and self._answering.method == b"HEAD":
            return  # Its answer is a head alone, which `end` writes.
        framed = b"%x\r\n%b\r\n" % (len(data), data) if self._is_chunked else data
        head, self._head = self._head, b""
        self._transport.write(head + framed if head else framed)

    def end(self) -> None:
        last = b"0\r\n\r\n" if self._is_chunked else b""
        head, self._head = self._head, b""
        self._is_chunked = False
        if head or last:
            self._transport.write(head + last)
        self._finish()

    def refuse(self, status: int, message: str) -> None:
        body = json.dumps({"message": message}).encode()
        headers = [(b"content-type", b"application/json")]
        if status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        self.begin(status, headers, len(body))
        self.piece(body)
        self.end()

    def cut(self) -> None:
        self._transport.abort()

    def _refuse_connection(self, status: int, message: str) -> None:
        """Answers what isn't a request, after those that are being answered, and ends."""
        refused = ClientRequest(keeps_connection=False, refusal=(status, message))
        self._is_in_head = False
        self._add(refused)
        self._is_discarding = True


def split_path(target: bytes) -> tuple[str, bytes]:
    """Endpoint and path behind it, of `/endpoints/NAME/PATH`; "" = the target has another form."""
    if not target.startswith(b"/endpoints/"):
        return "", b""
    name, slash, rest = target[len(b"/endpoints/") :].partition(b"/")
    return (unquote(name.decode("latin-1")), slash + rest) if slash else ("", b"")
