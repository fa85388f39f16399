"""The ports of services. Each service that a user opens has a port of its own, and thus an origin of its own.

A page of a job can then reach neither drumbeat's page nor another service: the browser separates origins, and requests
with cookies, which all ports of a host share, are refused by the browser's headers about the requesting page.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from drumbeat.model.errors import UnreachableError
from drumbeat.server.access.callers import Callers
from drumbeat.server.access.page_sessions import PageSessions
from drumbeat.server.access.request_guard import RequireOwn
from drumbeat.server.nodes.tunnels import Tunnel
from drumbeat.server.services.proxy import BrowserConnection, Reader, ServiceTarget
from drumbeat.server.services.service_access import OPEN, ServiceAuthorizer, ServiceKey

if TYPE_CHECKING:
    from drumbeat.server.access.user_tls import UserTls

MAX_PORTS = 256
MAX_CONNECTIONS = 256
"""Maximum number of concurrent connections of one port."""
_FIRST_PORT, _PORTS = 20_000, 10_000
"""A range below the kernel's ephemeral ports."""
_WITHOUT_PORT = re.compile(r"(.+?)(:\d+)?")

OpenTunnel = Callable[[ServiceKey, str], Awaitable[Tunnel]]
"""Opens a user's tunnel to a service."""
CloseTunnel = Callable[[Tunnel], Awaitable[None]]


class ServicePort:
    """The port of one service."""

    def __init__(self, target: ServiceTarget, server: asyncio.Server, number: int) -> None:
        self.target, self.number, self._server = target, number, server
        self._connections: set[asyncio.Task[None]] = set()

    def welcome(self, reader: Reader, writer: asyncio.StreamWriter) -> None:
        """Begins to serve a connection if there is room."""
        if len(self._connections) >= MAX_CONNECTIONS:
            writer.close()
            return
        task = asyncio.create_task(BrowserConnection(self.target, reader, writer).serve())
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def close(self) -> None:
        """Closes the port and its connections."""
        self._server.close()
        for one in list(self._connections):
            one.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)


class ServicePorts:
    """The ports of this server's services, opened at the first request for a link. For one event loop."""

    def __init__(
        self,
        token: str,
        callers: Callers,
        hosts: frozenset[str],
        host: str,
        require_own: RequireOwn,
        tls: UserTls | None = None,
    ) -> None:
        """hosts: accepted `Host` headers of the server. host: the address to listen on. tls: None = plain HTTP."""
        self._tls = tls
        self._token, self._callers, self._host, self._require_own = token, callers, host, require_own
        self._names = {match[1] for each in hosts if (match := _WITHOUT_PORT.fullmatch(each))}
        self._ports: dict[ServiceKey, ServicePort] = {}
        self._opening = asyncio.Lock()
        self.watches: dict[str, asyncio.Task[None]] = {}
        """Tasks that close the ports of a job at its end, by job."""

    async def link(self, key: ServiceKey, called: str, digest: str, target: tuple[OpenTunnel, CloseTunnel, str]) -> str:
        """Returns a link that opens the service once.

        called: the `Host` header by which the user calls this server; digest: of their token. target: what opens and
        closes tunnels, and JupyterLab's token. Raises UnreachableError when no port is free.
        """
        async with self._opening:
            port = self._ports.get(key) or await self._open(key, target)
        match = _WITHOUT_PORT.fullmatch(called)
        name = match[1] if match else called
        return f"{'https' if self._tls else 'http'}://{name}:{port.number}{OPEN}{port.target.authorizer.sessions.new_link(digest)}"

    async def keep(self, job: str, attempt: int) -> None:
        """Closes the ports to other attempts of a job than this one; -1 = all, because it has ended."""
        for key in [key for key in self._ports if key.job == job and key.attempt != attempt]:
            await self._ports.pop(key).close()

    @property
    def jobs(self) -> set[str]:
        """Returns the jobs whose services have ports."""
        return {key.job for key in self._ports}

    async def close(self) -> None:
        """Closes all ports."""
        for job in self.jobs:
            await self.keep(job, -1)

    async def _open(self, key: ServiceKey, target: tuple[OpenTunnel, CloseTunnel, str]) -> ServicePort:
        if len(self._ports) >= MAX_PORTS:
            raise UnreachableError(f"{MAX_PORTS} services are open on this server already")
        open_tunnel, close_tunnel, token = target
        made: list[ServicePort] = []

        def factory() -> asyncio.StreamReaderProtocol:
            reader = Reader()
            return asyncio.StreamReaderProtocol(reader, lambda _, writer: made[0].welcome(reader, writer))

        server = await self._listen(key, factory)
        number: int = server.sockets[0].getsockname()[1]
        # Sessions are signed with a key of this service, so that a cookie of another port is invalid here.
        sessions = PageSessions(f"{self._token} service {key} at {number}")
        hosts = frozenset(f"{name}:{number}" for name in self._names)
        authorizer = ServiceAuthorizer(
            sessions, self._callers, hosts, lambda person: self._require_own(person, key.job), has_tls=bool(self._tls)
        )
        port = ServicePort(
            ServiceTarget(authorizer, lambda person: open_tunnel(key, person), close_tunnel, token), server, number
        )
        made.append(port)
        await server.start_serving()
        self._ports[key] = port
        return port

    def _drawn(self, key: ServiceKey) -> bytes:
        """Returns bytes that are constant for a service and unpredictable for others."""
        return hmac.new(self._token.encode(), f"port of {key}".encode(), hashlib.sha256).digest()[:4]

    async def _listen(self, key: ServiceKey, factory: Callable[[], asyncio.StreamReaderProtocol]) -> asyncio.Server:
        """Listens on the service's usual port, which is constant across restarts, or on a free one."""
        usual = _FIRST_PORT + int.from_bytes(self._drawn(key)) % _PORTS
        loop = asyncio.get_running_loop()
        tls = self._tls.switching_context() if self._tls else None
        for number in (usual, 0):
            with contextlib.suppress(OSError):
                return await loop.create_server(factory, self._host, number, ssl=tls, start_serving=False)
        raise UnreachableError("no port is free for the service", where=self._host)
