"""How much comes in: the size of each request's body, and whether anybody is talking to us at all.

Wrong tokens are refused in `request_guard.py`.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException

from drumbeat.protocol.agent import LISTED_BYTES

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

LIMITS: tuple[tuple[re.Pattern[str], int], ...] = (
    (re.compile(r"/api/v1/snapshots/.*"), 1 * GIB + 64 * MIB),
    (re.compile(r"/api/v1/storage/file"), 16 << 40),
    (re.compile(r"/api/v1/storage/manifest"), 256 * MIB),
    (re.compile(r"/api/v1/(computes|datastores|data|registries|notices)"), 1 * MIB),
    (re.compile(r"/agent/v1/[^/]+/[^/]+/[^/]+/tunnels/[^/]+/up|/api/v1/jobs/[^/]+/sessions/[^/]+/input"), 1 << 60),
    (re.compile(r"/agent/v1/[^/]+/[^/]+/[^/]+/outputs/commit"), LISTED_BYTES),
    (re.compile(r"/agent/v1/[^/]+/[^/]+/[^/]+/(logs|outputs)/.*"), 4 * MIB),
    (
        re.compile(r"(/agent/v1/[^/]+/[^/]+/[^/]+)?/mlflow/(ajax-)?api/2\.0/mlflow-artifacts/artifacts/.*", re.DOTALL),
        16 << 40,
    ),
    (re.compile(r"(/agent|/mlflow)/.*", re.DOTALL), 16 * MIB),
    (re.compile(r"/api/v1/(jobs|plan|components|environments)"), 4 * MIB),
)
"""The largest body of each address, first match. A snapshot is 1 GiB of content and its tar headers. A list
of outputs takes five times its length in memory while it is read and checked.
"""

ELSEWHERE = 64 * KIB


MONITORING = ("/metrics", "/healthz", "/readyz")
"""Addresses that monitoring asks all day: they don't count as use of the server."""


class Traffic:
    """Counts requests on their way through, and when the last one came or went."""

    def __init__(self) -> None:
        self.in_flight = 0
        self.last = time.monotonic()

    def touch(self) -> None:
        """Something happened just now."""
        self.last = time.monotonic()

    def idle_s(self, own: int = 0) -> float:
        """Seconds since the last request ended; 0 while more are open than the `own` that don't count."""
        return 0.0 if self.in_flight > own else time.monotonic() - self.last


class TrafficMeter:
    """ASGI: keeps `traffic`, and ends a request whose body is larger than its address takes."""

    def __init__(self, app: ASGIApp, *, traffic: Traffic) -> None:
        self.app, self.traffic = app, traffic

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in MONITORING:
            await self.app(scope, receive, send)
            return
        self.traffic.in_flight += 1
        try:
            await self.app(scope, limited(receive, most_of(scope["path"])), send)
        finally:
            self.traffic.in_flight -= 1
            self.traffic.touch()


def most_of(path: str) -> int:
    """The largest body that an address takes, in bytes."""
    return next((most for pattern, most in LIMITS if pattern.fullmatch(path)), ELSEWHERE)


def limited(receive: Receive, most: int) -> Receive:
    """The same messages, up to `most` bytes of body."""
    seen = 0

    async def receive_some() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > most:
            raise HTTPException(413, f"the body is larger than the {most:,} bytes that this address takes")
        return message

    return receive_some
