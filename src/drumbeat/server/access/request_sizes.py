"""Incoming data: limits of size and speed for the body of each request, and the time of the last request.

Wrong tokens are refused in `request_guard.py`.
"""

from __future__ import annotations

import asyncio
import re
import resource
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException

from drumbeat.model.agent import LISTED_BYTES
from drumbeat.model.errors import UnreachableError
from drumbeat.server import errors
from drumbeat.server.access.request_guard import AGENT_CALL, LAST

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from drumbeat.model.principal import Principal
from collections import Counter

# A limited resource, shared between the senders of requests.


class FairShare:
    """Divides a resource between senders without fixed shares: a sender may have as much as is still free.

    Thus one sender alone gets at most half, two a third each, and there is always room for the next one (Choudhury
    and Hahne, Dynamic queue length thresholds, 1998).
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._taken: Counter[str] = Counter()

    @property
    def free(self) -> int:
        """The amount that is free."""
        return self.most - self._taken.total()

    def held_by(self, sender: str) -> int:
        """Returns the amount that a sender holds."""
        return self._taken[sender]

    def take(self, sender: str, amount: int) -> bool:
        """Gives a sender more, or returns False if it would exceed its share."""
        if self._taken[sender] + amount > self.free - amount:
            return False
        self._taken[sender] += amount
        return True

    def give_back(self, sender: str, amount: int) -> None:
        """Takes an amount back from a sender."""
        self._taken[sender] -= amount
        if not self._taken[sender]:
            del self._taken[sender]


KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

IN_MEMORY: tuple[tuple[re.Pattern[str], int], ...] = (
    (re.compile(r"/api/v1/storage/manifest"), 256 * MIB),
    (re.compile(r"/api/v1/(computes|datastores|data|registries|notices)"), 1 * MIB),
    (re.compile(r"/agent/v1/[^/]+/[^/]+/[^/]+/outputs/commit"), LISTED_BYTES),
    (re.compile(r"/agent/v1/[^/]+/[^/]+/[^/]+/(sync|(logs|outputs)/.*)"), 4 * MIB),
    (re.compile(r"(/agent|/mlflow)/.*", re.DOTALL), 16 * MIB),
    (re.compile(r"/(subscriptions|(history|data|modelregistry)/v1\.0)/.*", re.DOTALL), 4 * MIB),
    (re.compile(r"/api/v1/job-batches"), 16 * MIB),
    (re.compile(r"/api/v1/(jobs|plan|components|environments)"), 4 * MIB),
)
"""The largest body of each address, first match. A list of outputs takes five times its length in memory while it is
read and checked.
"""
STREAMED: tuple[tuple[re.Pattern[str], int], ...] = (
    (re.compile(r"PUT /api/v1/snapshots/.*"), 1 * GIB + 64 * MIB),
    (re.compile(r"PUT /api/v1/storage/file"), 16 << 40),
    (re.compile(r"PUT /blob/.*", re.DOTALL), 16 << 40),
    (
        re.compile(
            r"PUT (/agent/v1/[^/]+/[^/]+/[^/]+)?/mlflow/(ajax-)?api/2\.0/mlflow-artifacts/artifacts/.*", re.DOTALL
        ),
        16 << 40,
    ),
)
"""Bodies that are files and are streamed. A snapshot is 1 GiB of content and its tar headers."""
TUNNELS = re.compile(r"POST (/agent/v1/[^/]+/[^/]+/[^/]+/tunnels/[^/]+/up|/api/v1/jobs/[^/]+/sessions/[^/]+/input)")
"""Bodies without an end, on which nothing may arrive for long."""

ELSEWHERE = 64 * KIB
MAX_HELD = 640 * MIB
"""Memory for bodies of all requests together; a single sender gets at most half (`FairShare`)."""
SILENCE_TIMEOUT_S = 60.0
"""Time for the next piece of a body."""
MIN_BYTES_PER_S = 4 * KIB
"""Minimum average speed of a body after the first `SILENCE_TIMEOUT_S`. Only time in which the server waits counts."""


@dataclass(frozen=True)
class BodyLimit:
    """The limits of a request's body."""

    most: int
    is_held: bool = True
    """Whether it is read into memory."""
    is_timed: bool = True


MONITORING = ("/metrics", "/healthz", "/readyz")
"""Paths that monitoring polls; they don't count as use of the server."""


class Traffic:
    """Counts open requests, and records when the last one began or ended."""

    def __init__(self) -> None:
        self.in_flight = 0
        self.requests = FairShare(resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)
        self.held = FairShare(MAX_HELD)
        self.last = time.monotonic()

    def touch(self) -> None:
        """Records use of the server."""
        self.last = time.monotonic()

    def idle_s(self, own: int = 0) -> float:
        """Seconds since the last request ended; 0 while more than `own` are open."""
        return 0.0 if self.in_flight > own else time.monotonic() - self.last


class TrafficMeter:
    """ASGI middleware that counts `traffic` and ends a request whose body is too large or too slow for its path.

    A sender, which is a user or a job, can't fill the server's memory with bodies, nor its connections with requests.
    """

    def __init__(self, app: ASGIApp, *, traffic: Traffic) -> None:
        self.app, self.traffic = app, traffic

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in MONITORING:
            await self.app(scope, receive, send)
            return
        traffic, sender = self.traffic, request_sender(scope)
        if not traffic.requests.take(sender, 1):
            what = f"{sender} has {traffic.requests.held_by(sender):,} requests open at this server, and no more fit"
            await errors.response(UnreachableError(what), headers=LAST)(scope, receive, send)
            return
        body = IncomingBody(receive, body_limit(scope["method"], scope["path"]), sender, traffic.held)
        traffic.in_flight += 1
        try:
            await self.app(scope, body.receive, send)
        finally:
            body.forget()
            traffic.requests.give_back(sender, 1)
            traffic.in_flight -= 1
            traffic.touch()


def request_sender(scope: Scope) -> str:
    """Whose request it is: a user's, or a job's; "a stranger" where neither has shown a secret."""
    principal: Principal | None = scope.get("state", {}).get("principal")
    job = AGENT_CALL.fullmatch(scope["path"])
    return f"job {job[1]}" if job else principal.user if principal else "a stranger"


def body_limit(method: str, path: str) -> BodyLimit:
    """Returns the limits of the body of a request."""
    address = f"{method} {path}"
    if TUNNELS.fullmatch(address):
        return BodyLimit(1 << 60, is_held=False, is_timed=False)
    for pattern, most in STREAMED:
        if pattern.fullmatch(address):
            return BodyLimit(most, is_held=False)
    return BodyLimit(next((most for pattern, most in IN_MEMORY if pattern.fullmatch(path)), ELSEWHERE))


class IncomingBody:
    """The body of one request, received within its limits."""

    def __init__(self, receive: Receive, limit: BodyLimit, sender: str, held: FairShare) -> None:
        self._receive, self._limit, self._sender, self._held = receive, limit, sender, held
        self._bytes = self._own = 0
        """Bytes that have been received, and those that it holds of the memory for bodies."""
        self._waited_s, self._is_whole = 0.0, False

    async def receive(self) -> Message:
        """The next message. Raises HTTPException."""
        if self._is_whole:
            return await self._receive()
        message = await (self._in_time() if self._limit.is_timed else self._receive())
        size = len(message.get("body", b""))
        self._bytes += size
        if self._bytes > self._limit.most:
            most = self._limit.most
            raise HTTPException(413, f"the body is larger than the {most:,} bytes that this address takes")
        if self._limit.is_held and size:
            if not self._held.take(self._sender, size):
                what = f"{self._sender} sends more at once than the server has memory for; try again in a moment"
                raise HTTPException(503, what, LAST)
            self._own += size
        self._is_whole = not message.get("more_body", False)
        return message

    def forget(self) -> None:
        """Frees what the request held."""
        if self._own:
            self._held.give_back(self._sender, self._own)

    async def _in_time(self) -> Message:
        loop = asyncio.get_running_loop()
        began = loop.time()
        patience_s = SILENCE_TIMEOUT_S + self._bytes / MIN_BYTES_PER_S - self._waited_s
        try:
            async with asyncio.timeout(min(SILENCE_TIMEOUT_S, patience_s)):
                return await self._receive()
        except TimeoutError:
            what = f"the body came too slowly: {self._bytes:,} bytes in {self._waited_s + loop.time() - began:.0f} s"
            raise HTTPException(408, what, LAST) from None
        finally:
            self._waited_s += loop.time() - began
