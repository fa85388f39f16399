"""Serves the listeners for agents: TLS, short timeouts, and only the agents' protocol.

Strangers may connect, so a connection without an attempt's secret gets neither time nor memory.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import uvicorn
from fastapi import FastAPI
from starlette.responses import Response

from drumbeat.model.errors import DrumbeatError, EngineError, NotFoundError
from drumbeat.server import errors
from drumbeat.server.access.connections import Connections, HttpConnection
from drumbeat.server.access.era_guard import EraGuard
from drumbeat.server.access.request_guard import LAST, CheckSecret, refuse, require_secret, values
from drumbeat.server.access.request_sizes import TrafficMeter
from drumbeat.server.access.standby_guard import StandbyGuard
from drumbeat.server.context import ServerContext
from drumbeat.server.nodes.agent_api import environments, inputs, metrics, programs, sync, tunnels

if TYPE_CHECKING:
    import ssl

    from starlette.types import ASGIApp, Receive, Scope, Send
    from uvicorn.server import ServerState

    from drumbeat.server.access.agent_listeners import AgentListenerRules

GOODBYE_S = 5.0
MAX_HANDSHAKES = 128
BREATH_S = 0.1
"""Between tries to accept when there are no descriptors left."""

log = logging.getLogger("drumbeat.server")


def agents_app(context: ServerContext, hosts: Callable[[], frozenset[str]]) -> AgentsOnly:
    """Returns the app for agents. hosts: returns the accepted `Host` headers."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.state.context = context
    for each in (sync, tunnels, programs, inputs, environments, metrics):
        app.include_router(each.router)
    errors.install(app)
    app.add_middleware(TrafficMeter, traffic=context.traffic)
    current = EraGuard(StandbyGuard(app, context.is_active, context.active_url), context.era)
    return AgentsOnly(current, context.control.secrets.check, hosts)


class AgentsOnly:
    """ASGI app that admits agents that show their secret, before more than a short body is read; nothing else."""

    def __init__(self, app: ASGIApp, check: CheckSecret, hosts: Callable[[], frozenset[str]]) -> None:
        self.app, self.check, self.hosts = app, check, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self.refusal(scope)
        if refusal is None:
            await self.app(scope, receive, send)
        else:
            await refuse(refusal, scope, receive, send)

    def refusal(self, scope: Scope) -> Response | None:
        """The answer to a request that may not enter; it ends the connection."""
        headers = scope["headers"]
        called = values(headers, b"host")
        if len(called) != 1 or called[0].lower() not in self.hosts() or values(headers, b"origin"):
            return Response(status_code=404, headers=LAST)
        try:
            require_secret(scope, self.check)
        except NotFoundError:
            return Response(status_code=404, headers=LAST)
        except DrumbeatError as error:
            return errors.response(error, headers=LAST)
        return None


class TlsListeners(Protocol):
    """What a TLS server needs to know of its listeners."""

    @property
    def rules(self) -> AgentListenerRules:
        """The limits for unauthenticated clients."""
        ...

    def context(self) -> ssl.SSLContext:
        """The TLS context for the next connection. Raises EngineError."""
        ...


class AgentTlsServer:
    """Accepts connections by TLS, of agents unless make_app says whose, in the event loop in which it is created.

    state: of the running server. make_app: makes what the clients call, at the first connection.
    """

    def __init__(
        self,
        make_app: Callable[[], ASGIApp],
        listeners: TlsListeners,
        state: ServerState,
        connections: Connections,
    ) -> None:
        self._make_app, self._listeners, self._state, self._connections = make_app, listeners, state, connections
        self._loop = asyncio.get_running_loop()
        self._accepting: set[asyncio.Task[None]] = set()
        self._greeting: dict[asyncio.Task[None], socket.socket | None] = {}
        """With the connection, as long as its greeting hasn't begun: one that never does has to be closed for it."""
        self._is_closed = False

    @cached_property
    def _config(self) -> uvicorn.Config:
        """The configuration, built at the first connection, because most servers have no listeners for agents."""
        config = uvicorn.Config(
            self._make_app(), http="httptools", ws="none", lifespan="off",
            log_config=None, access_log=False, server_header=False, proxy_headers=False, timeout_keep_alive=75,
        )  # fmt: skip
        config.load()
        return config

    def accept_from(self, listener: socket.socket) -> None:
        """Accepts connections until the listener is shut down. Thread-safe."""
        self._loop.call_soon_threadsafe(self._tend, listener)

    def _tend(self, listener: socket.socket) -> None:
        if self._is_closed:
            return
        task = self._loop.create_task(self._accept(listener))
        self._accepting.add(task)
        task.add_done_callback(self._accepting.discard)

    async def close(self) -> None:
        """Stops accepting connections; `see_off` ends the open ones. The listeners stay open for another server."""
        self._is_closed = True
        tasks = [*self._accepting, *self._greeting]
        for task in tasks:
            task.cancel()
        for one in self._inside():
            if one.is_idle:  # Agents make another when they need it.
                one.transport.abort()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def see_off(self) -> None:
        """Aborts the open connections, without waiting for a TLS close."""
        for one in self._inside():
            one.transport.abort()
        for _ in range(100):
            if not self._inside():
                break
            await asyncio.sleep(0.01)

    def _inside(self) -> list[HttpConnection]:
        return [one for one in self._connections.open if one.scheme == "https"]

    async def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = await self._loop.sock_accept(listener)
            except OSError as error:
                if error.errno in (errno.EINVAL, errno.EBADF):
                    listener.close()
                    return
                await asyncio.sleep(BREATH_S)
            else:
                self._welcome(connection)

    def _welcome(self, connection: socket.socket) -> None:
        if not self._connections.has_room(len(self._greeting)):
            connection.close()
            return
        if len(self._greeting) >= min(MAX_HANDSHAKES, self._connections.most // 2):
            # The oldest handshake makes room: many silent connections can't keep agents out.
            longest = next(iter(self._greeting))
            longest.cancel()
            self._let_go(longest)
        task = self._loop.create_task(self._greet(connection))
        self._greeting[task] = connection
        task.add_done_callback(self._let_go)

    def _let_go(self, greeting: asyncio.Task[None]) -> None:
        unbegun = self._greeting.pop(greeting, None)
        if unbegun is not None:
            unbegun.close()

    async def _greet(self, connection: socket.socket) -> None:
        task = asyncio.current_task()
        if task in self._greeting:
            self._greeting[task] = None
        handshake_s = self._listeners.rules.limits.handshake_s
        try:
            await self._loop.connect_accepted_socket(
                lambda: HttpConnection(self._config, self._state, {}, self._connections), connection,
                ssl=self._listeners.context(), ssl_handshake_timeout=handshake_s, ssl_shutdown_timeout=GOODBYE_S,
            )  # fmt: skip
        except OSError as error:
            log.debug("a handshake failed: %s", error)
            connection.close()
        except EngineError as error:
            log.error("agents on other hosts can't call: %s", error)  # noqa: TRY400 - a sentence, not a defect
            connection.close()
