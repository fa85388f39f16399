"""A uvicorn server that announces itself, stops when idle, and ends open waits before shutdown.

The idle timeout is an option with its default in `server/options.py`; owners can change it at run time.
"""

from __future__ import annotations

import asyncio
import logging
import math
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

import uvicorn

from drumbeat.model import home_socket
from drumbeat.model.errors import StorageError
from drumbeat.server.access.agent_listeners import HandshakeLimits
from drumbeat.server.access.connections import Connections, HttpConnection, protocol_factory
from drumbeat.server.context import ServerContext, away
from drumbeat.server.nodes.agent_api.tls_server import AgentTlsServer, agents_app

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.types import ASGIApp

    from drumbeat.server.access.https_listener import HttpsListener

LONGEST_LOOK_S = 5.0

log = logging.getLogger("drumbeat.server")


class HomeConnection(HttpConnection):
    """A connection to the socket in the home folder, which only the server's user may open."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accepts the connection if the kernel reports the server's user at the other end."""
        super().connection_made(transport)
        if transport.is_closing():
            return
        descriptor = transport.get_extra_info("socket").fileno()
        try:
            with socket.fromfd(descriptor, socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                home_socket.require_trusted(connection)
        except OSError as error:
            log.warning("a connection to the socket in the home folder was refused: %s", error)
            transport.abort()


class StoppableServer(uvicorn.Server):
    """Runs until `stop`, a signal, or the idle timeout."""

    def __init__(
        self, app: FastAPI, context: ServerContext, *, on_ready: Callable[[], None], on_end: Callable[[], None]
    ) -> None:
        patience = context.agent_listeners.rules.limits if context.agent_listeners else HandshakeLimits()
        self._connections = Connections(patience.most, patience.head_s)
        config = uvicorn.Config(
            app, loop="uvloop", http=protocol_factory(self._connections),  # type: ignore[arg-type] # it makes one
            ws="none", lifespan="on", log_config=None, access_log=False,
            server_header=False, proxy_headers=False, timeout_keep_alive=75, timeout_graceful_shutdown=1,
        )  # fmt: skip
        super().__init__(config)
        self.context, self.on_ready, self.on_end = context, on_ready, on_end
        self._app = app
        self._idle: asyncio.Task[None] | None = None
        self._agent_server: AgentTlsServer | None = None
        self._azure_server: AgentTlsServer | None = None
        self._tls_server: AgentTlsServer | None = None
        self._tls_sockets: list[socket.socket] = []

    def stop(self) -> None:
        """Stops within two seconds, even with open requests."""
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listens, then announces the server. sockets: of the server's port, and those in its home folder."""
        at_home = [one for one in sockets or () if one.family == socket.AF_UNIX]
        at_ports = [one for one in sockets or () if one not in at_home]
        await super().startup([] if self.context.tls else at_ports)
        loop = asyncio.get_running_loop()
        if self.context.tls:
            self._tls_server = AgentTlsServer(lambda: self._app, self.context.tls, self.server_state, self._connections)
            self._tls_sockets = at_ports
            for one in at_ports:
                one.listen(self.config.backlog)
                one.setblocking(False)
                self._tls_server.accept_from(one)
        for one in at_home:
            server = await loop.create_unix_server(
                lambda: HomeConnection(self.config, self.server_state, {}, self._connections),
                sock=one,
                backlog=home_socket.BACKLOG,
            )
            self.servers.append(server)
        if self.context.agent_listeners is not None:
            listeners = self.context.agent_listeners
            self._agent_server = AgentTlsServer(
                lambda: agents_app(self.context, listeners.hosts), listeners, self.server_state, self._connections
            )
            listeners.start_accepting(self._agent_server)
        if self.context.azure is not None:
            azure = self.context.azure
            self._azure_server = AgentTlsServer(
                lambda: self._azure_app(azure), azure, self.server_state, self._connections
            )
            azure.start_accepting(self._azure_server)
        self.context.traffic.touch()  # The idle time begins now.
        self.on_ready()
        self._idle = asyncio.create_task(self._stop_when_idle())

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Ends long polls and streams, then waits for other requests."""
        self.on_end()
        if self._idle is not None:
            self._idle.cancel()
        self.context.fanout.close()
        if self._agent_server is not None and self.context.agent_listeners is not None:
            await self._agent_server.close()
            self.context.agent_listeners.stop_accepting()
        if self._azure_server is not None and self.context.azure is not None:
            await self._azure_server.close()
            self.context.azure.stop_accepting()
        if self._tls_server is not None:
            await self._tls_server.close()
            for one in self._tls_sockets:
                one.close()
        await super().shutdown(sockets)
        for one in (self._agent_server, self._azure_server, self._tls_server):
            if one is not None:
                await one.see_off()

    def _azure_app(self, listener: HttpsListener) -> ASGIApp:
        """Returns the app for Azure's clients, which is imported when the first one calls."""
        from drumbeat.server.azure.app import azure_app

        assert self.context.azure_tokens is not None  # noqa: S101 - the app of the server has set it
        return azure_app(self.context, self.context.azure_tokens, listener.hosts)

    def _may_have_work(self) -> bool:
        try:
            is_promised = self.context.azure is not None and self.context.azure.is_promised()
            return is_promised or self.context.control.must_stay()
        except StorageError:  # Unknown at present.
            return True

    def _is_idle(self) -> bool:
        return bool(self.context.idle_stop_s) and self.context.traffic.idle_s() >= self.context.idle_stop_s

    async def _stop_when_idle(self) -> None:
        """Stops when the idle time has passed since the last request and the last work."""
        while not self.should_exit:
            idle_s = self.context.idle_stop_s or math.inf
            await asyncio.sleep(min(idle_s / 10, LONGEST_LOOK_S))
            if not self._is_idle():
                continue
            if await away(self._may_have_work):
                self.context.traffic.touch()
            elif self._is_idle():
                self.stop()
