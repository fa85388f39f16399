"""A connection that a replica has dialed: requests go out by it one after another, answers come back by pieces."""

from __future__ import annotations

import asyncio
from typing import cast

import httptools

from drumbeat.router.exchange import Exchange
from drumbeat.router.peer_silence import TcpSocket, is_silent
from drumbeat.router.pool import PermitPool

_HOP_BY_HOP = frozenset({b"connection", b"keep-alive", b"transfer-encoding", b"upgrade", b"te", b"trailer",
                         b"content-length", b"proxy-authenticate"})  # fmt: skip
_DRAIN = b"drumbeat-drain"
MAX_STREAM_SILENCE_S = 300.0
"""For how long a replica may send nothing within an answer."""
REDIAL = b"POST /.drumbeat/redial HTTP/1.1\r\nHost: replica\r\nContent-Length: 0\r\n\r\n"


class ReplicaConnection:
    """Implements `exchange.Permit`. tcp: the socket of one from another machine; None = it is on this machine."""

    def __init__(
        self,
        pool: PermitPool,
        replica: str,
        transport: asyncio.Transport,
        process: str = "",
        tcp: TcpSocket | None = None,
    ) -> None:
        self._pool, self.replica, self._transport = pool, replica, transport
        self.process = process or replica
        self._tcp = tcp
        self.is_idle = False
        self.heard_s = pool.now()
        self._exchange: Exchange | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._headers: list[tuple[bytes, bytes]] = []
        self._pieces: list[bytes] = []
        self._length: int | None = None
        self._is_drain = self._is_begun = self._is_complete = self._has_head = False
        self._is_redialing = self._closes_later = False
        self.has_redialed = False
        """Whether the replica has been asked to dial this router's successor."""

    # --- requests -----------------------------------------------------------------------------------------------
    def run(self, exchange: Exchange) -> None:
        """Sends a request."""
        self._exchange = exchange
        first, rest = exchange.wire()
        self._transport.write(first)
        if rest:
            self._transport.write(rest)

    def redial(self) -> None:
        """Asks the replica to dial again: the next connection goes to this router's successor."""
        if self.is_idle:
            self._pool.remove(self)
            self._pool.live.add(self)
        self._is_redialing = self.has_redialed = True
        self._pool.redialing += 1
        self._transport.write(REDIAL)

    def abandon(self) -> None:
        """Gives up the request that runs. The replica dials again when the run has ended."""
        self._exchange = None
        self._transport.close()

    def close(self) -> None:
        """Closes the connection now if it is idle, else after its answer."""
        self._closes_later = True
        if self._exchange is None:
            self._transport.close()

    def pause(self) -> None:
        """The client is slow."""
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        """The client has caught up."""
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def end_if_silent(self, now: float) -> None:
        """Cuts an answer that has begun and doesn't go on, and a connection whose other machine is gone.

        Before an answer begins, the deployment's time-out counts.
        """
        if self._tcp is not None and not self._transport.is_closing() and is_silent(self._tcp):
            self._transport.abort()
            return
        is_streaming = self._exchange is not None and self._is_begun and not self._is_complete
        if is_streaming and now - self.heard_s > MAX_STREAM_SILENCE_S:
            self._transport.abort()

    # --- answers ------------------------------------------------------------------------------------------------
    def received(self, data: bytes) -> None:
        """Takes what the replica has sent."""
        self.heard_s = self._pool.now()
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._transport.abort()
            return
        exchange = self._exchange
        if exchange is None or not self._has_head or self._is_complete:
            return
        if not self._is_begun:
            self._is_begun = True
            exchange.answered_head(self._parser.get_status_code(), self._headers, self._length)
        pieces, self._pieces = self._pieces, []
        for piece in pieces:
            exchange.answered_piece(piece)

    def on_message_begin(self) -> None:
        self._headers, self._pieces, self._length = [], [], None
        self._is_drain = self._is_begun = self._is_complete = self._has_head = False

    def on_header(self, name: bytes, value: bytes) -> None:
        low = name.lower()
        if low == b"content-length":
            self._length = int(value)
        elif low == _DRAIN:
            self._is_drain = True
        elif low not in _HOP_BY_HOP:
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        self._has_head = status >= 200 and not self._is_drain and not self._is_redialing
        exchange = self._exchange
        if exchange is not None and exchange.is_head and self._has_head:
            # The parser would wait for a body that an answer to HEAD doesn't have.
            self._exchange = None
            exchange.answered_whole(status, self._headers, b"")
            self._transport.close()

    def on_body(self, data: bytes) -> None:
        self._pieces.append(data)

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:
            return
        self._is_complete = True
        if self._is_redialing:
            self._is_redialing = False
            self._pool.redialing -= 1
            self._next()
            return
        exchange, self._exchange = self._exchange, None
        if self._is_drain or exchange is None:
            self._pool.remove(self)
            self._transport.close()
            if exchange is not None:
                exchange.drained()
            return
        keeps = self._parser.should_keep_alive()
        pieces, self._pieces = self._pieces, []
        if self._is_begun:
            for piece in pieces:
                exchange.answered_piece(piece)
            exchange.answered_end(status)
        else:
            exchange.answered_whole(status, self._headers, b"".join(pieces))
        if keeps:
            self._next()
        else:
            self._transport.close()

    def _next(self) -> None:
        if self._closes_later or self._transport.is_closing():
            self._transport.close()
        elif self in self._pool.live:
            if self._pool.is_handed_over and not self.has_redialed:
                self.redial()
            else:
                self._pool.give(self)

    def lost(self) -> None:
        """The connection has ended."""
        self._pool.remove(self)
        if self._is_redialing:
            self._is_redialing = False
            self._pool.redialing -= 1
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.died(self.process)


def as_transport(transport: asyncio.BaseTransport) -> asyncio.Transport:
    """A transport that is read and written."""
    return cast("asyncio.Transport", transport)
