"""What stands in an open door: TLS, little patience, and nothing but the agents' protocol.

Strangers may come here, so whoever hasn't shown an attempt's secret gets neither time nor memory.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import re
import resource
import socket
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, cast

import uvicorn
from fastapi import FastAPI
from starlette.responses import Response
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from drumbeat.protocol.errors import DrumbeatError, EngineError
from drumbeat.server import errors
from drumbeat.server.access.request_guard import bearer, values
from drumbeat.server.access.request_sizes import KIB, TrafficMeter
from drumbeat.server.agent_api import inputs, metric_spools, mlflow, programs, sync, tunnels
from drumbeat.server.context import ServerContext

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
    from uvicorn.server import ServerState

    from drumbeat.server.access.agent_listeners import TlsDoors

GOODBYE_S = 5.0
MAX_HEAD = 64 * KIB
MAX_HANDSHAKES = 128
BREATH_S = 0.1
"""Between tries to accept when there are no descriptors left."""

PATH = re.compile(r"/agent/v1/([^/]+)/(\d{1,9})/(\d{1,9})/.+", re.ASCII | re.DOTALL)

log = logging.getLogger("drumbeat.server")


def agents_app(context: ServerContext, hosts: Callable[[], frozenset[str]]) -> AgentsOnly:
    """The app behind the doors. hosts: what `Host` may say now."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.state.context = context
    for each in (sync, tunnels, programs, inputs, metric_spools, mlflow):
        app.include_router(each.router)
    errors.install(app)
    app.add_middleware(TrafficMeter, traffic=context.traffic)
    return AgentsOnly(app, context.control.secrets.check, hosts)


class AgentsOnly:
    """ASGI: lets agents in that show their secret, before anything more of them is read. There is nothing else here.

    check: raises for a secret that isn't the attempt's; it doesn't block.
    """

    def __init__(
        self, app: ASGIApp, check: Callable[[str, int, str], None], hosts: Callable[[], frozenset[str]]
    ) -> None:
        self.app, self.check, self.hosts = app, check, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self.refusal(scope)
        await (self.app if refusal is None else refusal)(scope, receive, send)

    def refusal(self, scope: Scope) -> Response | None:
        """The answer to a request that may not enter; it ends the connection."""
        headers = scope["headers"]
        called, path = values(headers, b"host"), PATH.fullmatch(scope["path"])
        if path is None or len(called) != 1 or called[0].lower() not in self.hosts() or values(headers, b"origin"):
            return Response(status_code=404, headers=LAST)
        try:
            self.check(path[1], int(path[2]), bearer(headers))
        except DrumbeatError as error:
            return errors.response(error, headers=LAST)
        return None


LAST = {"Connection": "close"}


class Impatient(HttpToolsProtocol):
    """uvicorn's, for strangers: a request whose head doesn't come soon, or grows too long, is its connection's last."""

    def __init__(
        self, config: uvicorn.Config, state: ServerState, inside: dict[Impatient, None], head_s: float
    ) -> None:
        super().__init__(config, state, {})
        self._inside, self._head_s = inside, head_s
        self._deadline: asyncio.TimerHandle | None = None
        self._unread = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._inside[self] = None
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        self._inside.pop(self, None)
        self._expect_no_more()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        # What came last may hold a body, too; what came before that was a head without an end.
        if self._unread > MAX_HEAD:
            self.transport.abort()
            return
        self._unread += len(data) if self._deadline is not None else 0
        super().data_received(data)

    @property
    def is_silent(self) -> bool:
        """Whether it hasn't asked for anything yet."""
        return cast("RequestResponseCycle | None", self.cycle) is None

    def leave(self) -> None:
        """Ends a connection that nothing is asked on: agents make another when they need it."""
        if self.is_silent or self.cycle.response_complete:
            self.transport.abort()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._expect()

    def on_headers_complete(self) -> None:
        self._expect_no_more()
        super().on_headers_complete()

    def _expect(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(self._head_s, self.transport.abort)

    def _expect_no_more(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline, self._unread = None, 0


class Doorway:
    """Lets in whoever comes to the doors, in the event loop that it was made in. state: of the server that runs."""

    def __init__(self, context: ServerContext, doors: TlsDoors, state: ServerState) -> None:
        self._context, self._doors, self._state = context, doors, state
        self._loop = asyncio.get_running_loop()
        self._accepting: set[asyncio.Task[None]] = set()
        self._greeting: dict[asyncio.Task[None], socket.socket | None] = {}
        """With the connection, as long as its greeting hasn't begun: one that never does has to be closed for it."""
        self._inside: dict[Impatient, None] = {}
        # As many are left for everything else: a crowd at the door must not keep the server from its own files.
        self._most = doors.rules.patience.most or resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2
        self._is_closed = False

    @cached_property
    def _config(self) -> uvicorn.Config:
        """Made when the first one comes: most servers have no doors."""
        config = uvicorn.Config(
            agents_app(self._context, self._doors.hosts), http="httptools", ws="none", lifespan="off", log_config=None,
            access_log=False, server_header=False, proxy_headers=False, timeout_keep_alive=75,
        )  # fmt: skip
        config.load()
        return config

    def tend(self, listener: socket.socket) -> None:
        """Lets in whoever comes there, until the listener is shut down. From any thread."""
        self._loop.call_soon_threadsafe(self._tend, listener)

    def _tend(self, listener: socket.socket) -> None:
        if self._is_closed:
            return
        task = self._loop.create_task(self._accept(listener))
        self._accepting.add(task)
        task.add_done_callback(self._accepting.discard)

    async def close(self) -> None:
        """Lets nobody in any more; who is inside is the server's to see off. The listeners stay open, for another."""
        self._is_closed = True
        tasks = [*self._accepting, *self._greeting]
        for task in tasks:
            task.cancel()
        for one in list(self._inside):
            one.leave()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def see_off(self) -> None:
        """Ends what is still open: whoever doesn't answer a goodbye isn't waited for."""
        for one in list(self._inside):
            one.transport.abort()
        for _ in range(100):
            if not self._inside:
                break
            await asyncio.sleep(0.01)

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
        if len(self._inside) + len(self._greeting) >= self._most and not self._make_room():
            connection.close()
            return
        if len(self._greeting) >= min(MAX_HANDSHAKES, self._most // 2):
            # Whoever has taken longest makes room: a crowd that says nothing can't keep agents out.
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

    def _make_room(self) -> bool:
        """Sends away whoever has longest been inside and asked for nothing yet, if there is one."""
        silent = next((one for one in self._inside if one.is_silent), None)
        if silent is not None:
            del self._inside[silent]
            silent.transport.abort()
        return silent is not None

    async def _greet(self, connection: socket.socket) -> None:
        task = asyncio.current_task()
        if task in self._greeting:
            self._greeting[task] = None
        patience = self._doors.rules.patience
        try:
            await self._loop.connect_accepted_socket(
                lambda: Impatient(self._config, self._state, self._inside, patience.head_s), connection,
                ssl=self._doors.context(), ssl_handshake_timeout=patience.handshake_s, ssl_shutdown_timeout=GOODBYE_S,
            )  # fmt: skip
        except OSError as error:
            log.debug("a handshake failed: %s", error)
            connection.close()
        except EngineError as error:
            log.error("agents on other hosts can't call: %s", error)  # noqa: TRY400 - a sentence, not a defect
            connection.close()
