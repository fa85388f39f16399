"""The router's Unix socket: `GET /numbers` for the server, `GET /metrics` for Prometheus, by the same user only."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from drumbeat.model import home_socket
from drumbeat.router.numbers import as_prometheus
from drumbeat.router.replica_connection import as_transport

_MAX_HEAD = 8 << 10


class NumbersConnection(asyncio.Protocol):
    """Answers one request. summary: the router's numbers."""

    def __init__(self, summary: Callable[[], dict[str, Any]]) -> None:
        self._summary = summary
        self._head = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = as_transport(transport)
        connected: Any = transport.get_extra_info("socket")
        try:
            home_socket.require_trusted(connected)
        except OSError:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._head += data
        if self._transport is None:
            return
        if b"\r\n\r\n" not in self._head:
            if len(self._head) > _MAX_HEAD:
                self._transport.abort()
            return
        path = self._head.split(b" ", 2)[1:2]
        summary = self._summary()
        if path == [b"/numbers"]:
            status, kind, text = "200 OK", "application/json", json.dumps(summary)
        elif path == [b"/metrics"]:
            status, kind, text = "200 OK", "text/plain; version=0.0.4", as_prometheus(summary["deployments"])
        else:
            status, kind, text = "404 Not Found", "text/plain", "/numbers and /metrics\n"
        body = text.encode()
        head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        self._transport.write(head.encode() + body)
        self._transport.close()
