"""Measures the time until the first byte of the response, by method, route and status."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from drumbeat.server.operations.counters import Histogram

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
UNKNOWN = "unknown"
"""The label of requests that match no route, because their paths are arbitrary."""


class RequestTimes:
    """ASGI middleware that measures each request until the first byte of its response, also for streams."""

    def __init__(self, app: ASGIApp, *, times: Histogram) -> None:
        self.app, self.times = app, times

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = time.perf_counter()

        async def send_measured(message: Message) -> None:
            if message["type"] == "http.response.start":
                took_s = time.perf_counter() - began
                self.times.observe(took_s, scope["method"], route_label(scope), str(message["status"]))
            await send(message)

        await self.app(scope, receive, send_measured)


def route_label(scope: Scope) -> str:
    """Returns the path of the route of a request, with the names of its parameters: `/api/v1/jobs/{name}`."""
    return getattr(scope.get("route"), "path", UNKNOWN)
