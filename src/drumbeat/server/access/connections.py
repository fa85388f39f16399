"""The server's connections: limits of a request's head, and which connection is closed to make room for another.

The server's own port and the listeners for agents share one `Connections`, so that together they leave descriptors for
the server's files. HTTP allows closing an idle connection at any time; its client opens another one.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

if TYPE_CHECKING:
    import uvicorn
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
    from uvicorn.server import ServerState

MAX_HEAD = 64 << 10
HEAD_TIMEOUT_S = 10.0
"""Time for a request's head, from its first byte; for the first one, from the connection's beginning."""
STALL_TIMEOUT_S = 60.0
"""After this time a client that doesn't read its response makes room for others."""


class Connections:
    """The open connections of all listeners, up to a limit. For one event loop."""

    def __init__(self, most: int = 0, head_timeout_s: float = HEAD_TIMEOUT_S) -> None:
        """most: 0 = half of the process's descriptors."""
        self.most = most or resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2
        self.head_timeout_s = head_timeout_s
        self.open: dict[HttpConnection, None] = {}
        self._silent = IdleConnections()
        """Connections that haven't sent a request's head yet."""
        self._idle = IdleConnections()
        """Connections whose requests have all been answered."""

    def has_room(self, more: int = 0) -> bool:
        """Whether there is room for another connection beside `more` pending ones; closes one if that makes room.

        A connection without a request goes first.
        """
        if len(self.open) + more < self.most:
            return True
        gives_way = self._silent.oldest() or self._idle.oldest() or self._stalled()
        if gives_way is None:
            return False
        self.remove(gives_way)
        gives_way.transport.abort()
        return True

    def add(self, connection: HttpConnection) -> None:
        """Counts a connection, which is silent until it has sent a request's head."""
        self.open[connection] = None
        self._silent.add(connection)

    def remove(self, connection: HttpConnection) -> None:
        """Stops counting a connection."""
        self.open.pop(connection, None)
        self.set_busy(connection)

    def set_idle(self, connection: HttpConnection) -> None:
        """Records that all its requests have been answered."""
        if connection in self.open:
            self._idle.add(connection)

    def set_busy(self, connection: HttpConnection) -> None:
        """Records that a request is being answered on it."""
        self._silent.discard(connection)
        self._idle.discard(connection)

    def _stalled(self) -> HttpConnection | None:
        return next((one for one in self.open if one.is_stalled), None)


class IdleConnections:
    """Connections on which no request is being answered, by peer."""

    def __init__(self) -> None:
        self._of: dict[str, dict[HttpConnection, None]] = {}

    def add(self, connection: HttpConnection) -> None:
        """Adds a connection as the newest of its peer."""
        self._of.setdefault(connection.peer, {})[connection] = None

    def discard(self, connection: HttpConnection) -> None:
        """Removes a connection."""
        of_peer = self._of.get(connection.peer, {})
        of_peer.pop(connection, None)
        if not of_peer:
            self._of.pop(connection.peer, None)

    def oldest(self) -> HttpConnection | None:
        """Returns the oldest connection of the peer with most, so that a flooding peer displaces only its own."""
        return next(iter(max(self._of.values(), key=len))) if self._of else None


class HttpConnection(HttpToolsProtocol):
    """uvicorn's protocol with limits: a connection is closed after a request whose head is late or too long."""

    def __init__(
        self, config: uvicorn.Config, server_state: ServerState, app_state: dict[str, Any], connections: Connections
    ) -> None:
        super().__init__(config, server_state, app_state)
        self._all = connections
        self._deadline: asyncio.TimerHandle | None = None
        self._head_bytes = 0
        self._is_in_body = False
        self._paused_at: float | None = None
        """When the client stopped reading, by the event loop's clock; None = it reads."""

    @property
    def peer(self) -> str:
        """The peer's address; "" = a program on this machine, over a Unix socket."""
        return self.client[0] if self.client else ""

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered."""
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return cycle is None or cycle.response_complete

    @property
    def is_stalled(self) -> bool:
        """Whether the client has read nothing of a response for too long."""
        return self._paused_at is not None and self.loop.time() - self._paused_at > STALL_TIMEOUT_S

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if not self._all.has_room():
            transport.abort()
            return
        self._all.add(self)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.remove(self)
        self._expect_no_more()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        # The last piece may contain a body, too; everything before it was an unfinished head.
        if self._head_bytes > MAX_HEAD:
            self.transport.abort()
            return
        if self.is_idle:  # This includes the rest of a body that was answered before its end.
            self._expect_head()
        if self._deadline is not None and not self._is_in_body:
            self._head_bytes += len(data)
        super().data_received(data)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._expect_head()

    def on_headers_complete(self) -> None:
        self._expect_no_more()
        self._is_in_body = True
        self._all.set_busy(self)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._is_in_body = False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.is_idle:
            self._all.set_idle(self)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._paused_at = self.loop.time()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._paused_at = None

    def _expect_head(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(self._all.head_timeout_s, self.transport.abort)

    def _expect_no_more(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline, self._head_bytes = None, 0


def protocol_factory(connections: Connections) -> Callable[..., HttpConnection]:
    """Returns the factory that uvicorn calls for each connection of a listener."""

    def made(
        config: uvicorn.Config, server_state: ServerState, app_state: dict[str, Any], _loop: object = None
    ) -> HttpConnection:
        return HttpConnection(config, server_state, app_state, connections)

    return made
