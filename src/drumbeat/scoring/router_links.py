"""The connections of a replica to the router. Each idle one is a permit for one request.

A connection is opened by an HTTP request that names the replica and shows its secret; after `101 Switching Protocols`
the router sends requests by it. A router that is being replaced asks its replicas to dial again, and closes the old
connections once its successor has taken over.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
import ssl
from collections.abc import Callable
from urllib.parse import urlsplit

from drumbeat.model import home_socket
from drumbeat.scoring.connection import ScoringConnection
from drumbeat.scoring.messages import ScoringAnswer, ScoringRequest
from drumbeat.scoring.settings import RouterAccess

log = logging.getLogger("drumbeat.scoring")
PROTOCOL = "drumbeat-replica/1"
REDIAL_PATH = "/.drumbeat/redial"
"""A request of the router: open another connection, which goes to its successor."""
_FIRST_PAUSE_S, _MAX_PAUSE_S = 0.05, 2.0
_HANDSHAKE_S = 10.0
_MAX_HEAD = 16 << 10
_PROCESS = os.urandom(8).hex()
"""Names this process: the router avoids all connections of one that has died."""


class RefusedByRouterError(Exception):
    """The router doesn't take this replica; says why."""


class RouterLinks:
    """Keeps the connections to all routers open."""

    def __init__(self, access: RouterAccess, make: Callable[[], ScoringConnection]) -> None:
        self._access, self._make = access, make
        self._tasks: set[asyncio.Task[None]] = set()
        self.open: set[ScoringConnection] = set()
        self._is_draining = False
        self._context = _tls_context(access.ca) if access.ca else None

    def start(self) -> None:
        """Dials."""
        for address in self._access.addresses:
            for _ in range(self._access.connections):
                self._add(address)

    def drain(self) -> None:
        """Takes no more requests: idle connections close, busy ones after their answer."""
        self._is_draining = True
        for task in self._tasks:
            task.cancel()
        for one in list(self.open):
            one.drain()

    def _add(self, address: str) -> None:
        task = asyncio.get_running_loop().create_task(self._hold(address))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _hold(self, address: str) -> None:
        """Keeps one connection open."""
        pause = _FIRST_PAUSE_S
        last = ""
        while not self._is_draining:
            try:
                link = await self._dial(address)
            except (TimeoutError, OSError, RefusedByRouterError, asyncio.IncompleteReadError) as error:
                if str(error) != last:
                    last = str(error)
                    log.warning("the router at %s can't be called: %s", address, error or type(error).__name__)
                await asyncio.sleep(pause * random.uniform(0.5, 1))  # noqa: S311 - spreads replicas, keeps no secret
                pause = min(_MAX_PAUSE_S, pause * 2)
                continue
            pause, last = _FIRST_PAUSE_S, ""
            if await self._serve(link, address):
                return

    async def _serve(self, link: _ReplicaLink, address: str) -> bool:
        """Waits for the end of a connection. Returns whether another one has taken its place."""
        connection = link.connection
        self.open.add(connection)
        link.on_redial = lambda: self._add(address)
        try:
            await connection.is_lost.wait()
        finally:
            if connection.is_lost.is_set():
                self.open.discard(connection)
        # A permit is free when its run has ended: a run goes on after the router has given it up.
        while connection.is_busy and not self._is_draining:
            await asyncio.sleep(0.02)
        return link.has_redialed

    async def _dial(self, address: str) -> _ReplicaLink:
        """Opens a connection. Raises OSError, RefusedByRouterError, TimeoutError."""
        loop = asyncio.get_running_loop()
        link = _ReplicaLink(self._make(), self._hello(address))
        path = home_socket.socket_path(address)
        if path:
            connected = await loop.run_in_executor(None, home_socket.connect, path, _HANDSHAKE_S)
            connected.settimeout(0)
            transport, _ = await loop.create_unix_connection(lambda: link, sock=connected)
        else:
            url = urlsplit(address)
            if url.scheme != "https" or self._context is None:
                raise RefusedByRouterError(f"{address} isn't unix:PATH or https://HOST:PORT with a certificate")
            transport, _ = await asyncio.wait_for(
                loop.create_connection(lambda: link, url.hostname or "", url.port or 443, ssl=self._context),
                _HANDSHAKE_S,
            )
            _keep_alive(transport.get_extra_info("socket"))
        try:
            await asyncio.wait_for(link.accepted, _HANDSHAKE_S)
        except BaseException:
            transport.close()
            raise
        return link

    def _hello(self, address: str) -> bytes:
        access = self._access
        host = urlsplit(address).netloc or home_socket.HOST
        return (
            f"GET /replica HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: {PROTOCOL}\r\n"
            f"Authorization: Bearer {access.secret}\r\nDrumbeat-Endpoint: {access.endpoint}\r\n"
            f"Drumbeat-Deployment: {access.deployment}\r\nDrumbeat-Replica: {access.replica}\r\n"
            f"Drumbeat-Process: {_PROCESS}\r\n\r\n"
        ).encode()


class _ReplicaLink(asyncio.Protocol):
    """Says who the replica is, then passes everything to a connection of the scoring server."""

    def __init__(self, connection: ScoringConnection, hello: bytes) -> None:
        self.connection, self._hello = connection, hello
        self.accepted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._head = b""
        self._is_open = False
        self.has_redialed = False
        self.on_redial: Callable[[], None] | None = None
        connection.on_control = self._control

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.connection.connection_made(transport)
        self.connection.write(self._hello)

    def data_received(self, data: bytes) -> None:
        if self._is_open:
            self.connection.data_received(data)
            return
        self._head += data
        head, found_end, rest = self._head.partition(b"\r\n\r\n")
        if not found_end:
            if len(self._head) > _MAX_HEAD:
                self._refuse("its answer is too long")
            return
        status = head.split(b"\r\n", 1)[0].split(b" ")[1:2]
        if status != [b"101"]:
            self._refuse((rest or head).decode("utf-8", "replace")[:500])
            return
        self._is_open = True
        if not self.accepted.done():
            self.accepted.set_result(None)
        if rest:
            self.connection.data_received(rest)

    def _refuse(self, reason: str) -> None:
        if not self.accepted.done():
            self.accepted.set_exception(RefusedByRouterError(f"it doesn't take this replica: {reason}"))
        self.connection.close()

    def _control(self, request: ScoringRequest) -> ScoringAnswer | None:
        if request.path != REDIAL_PATH:
            return None
        if not self.has_redialed and self.on_redial is not None:
            self.has_redialed = True
            self.on_redial()
        return ScoringAnswer(204, [], b"")

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self.connection.pause_writing()

    def resume_writing(self) -> None:
        self.connection.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.accepted.done():
            self.accepted.set_exception(exc or ConnectionResetError("the connection was closed"))
        self.connection.connection_lost(exc)


def _keep_alive(connected: socket.socket) -> None:
    """Has the kernel find out within half a minute that the router's machine is gone."""
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        (socket.TCP_NODELAY, 1), (socket.TCP_KEEPIDLE, 10), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 4)
    ):  # fmt: skip
        connected.setsockopt(socket.IPPROTO_TCP, option, value)


def _tls_context(ca: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if "-----BEGIN" in ca:
        context.load_verify_locations(cadata=ca)
    else:
        context.load_verify_locations(cafile=ca)
    return context
