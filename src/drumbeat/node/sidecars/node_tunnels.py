"""Tunnels: a user's connections to a service or a session of this node, carried by two streams to the server.

The server may not be able to reach the node, so the agent dials: the answer to one request brings the user's bytes, and
the body of another takes the node's. The end of either side ends both.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from drumbeat.model.errors import ConflictError, DrumbeatError, NotFoundError
from drumbeat.node.platform import port_owners
from drumbeat.node.platform.server_link import ServerLink
from drumbeat.node.sidecars import service_addresses
from drumbeat.node.sidecars.local_sockets import connect_to

if TYPE_CHECKING:
    from drumbeat.node.supervisor.request_context import RequestContext

MAX_TUNNELS = 256
_PIECE_BYTES = 1 << 16
_CONNECT_TIMEOUT_S = 5.0
_BROKEN = (OSError, http.client.HTTPException, DrumbeatError, ValueError, AttributeError)
"""Errors of a stream that either side has ended; the last two come from TLS that another thread ends."""

_slots = threading.BoundedSemaphore(MAX_TUNNELS)
_received, _counting = 0, threading.Lock()


def received_bytes() -> int:
    """Returns how much users have sent through the tunnels of this node until now."""
    return _received


def _count(size: int) -> None:
    global _received  # noqa: PLW0603 (one for the node)
    with _counting:
        _received += size


def open_to_service(context: RequestContext) -> dict[str, Any]:
    """Answers a request to connect a user with a service. Raises NotFoundError, ConflictError."""
    name = context.request.fields["service"]
    place = service_addresses.read(context.enrolment.root).get(name)
    if place is None:
        raise NotFoundError(f"node {context.enrolment.node} has no service {name}")
    begin(context, lambda: _connected(name, place))
    return {"is_open": True}


def _connected(name: str, place: service_addresses.ServicePlace) -> socket.socket:
    try:
        if place.socket:
            return connect_to(place.socket)
        local = socket.create_connection(("127.0.0.1", place.port), _CONNECT_TIMEOUT_S)
        try:
            port_owners.require_own(place.port)
        except OSError:
            local.close()
            raise
    except OSError as error:
        raise ConflictError(f"service {name} doesn't answer on its node: {error.strerror or error}") from None
    local.settimeout(None)
    local.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return local


def begin(context: RequestContext, connect: Callable[[], socket.socket]) -> None:
    """Connects a tunnel of the server with a local connection, and lets it run in threads. Raises DrumbeatError."""
    if not _slots.acquire(blocking=False):
        raise ConflictError(f"node {context.enrolment.node} has {MAX_TUNNELS} connections of users already")
    try:
        NodeTunnel(context, connect).begin(_slots.release)
    except BaseException:
        _slots.release()
        raise


class NodeTunnel:
    """One connection: a thread for each direction."""

    _local: socket.socket

    def __init__(self, context: RequestContext, connect: Callable[[], socket.socket]) -> None:
        """connect: opens the local connection, once those to the server are open."""
        self._path = f"/tunnels/{quote(context.request.fields['tunnel'], safe='')}"
        self._up, self._down = ServerLink(context.enrolment), ServerLink(context.enrolment)
        self._connect = connect

    def begin(self, on_end: Callable[[], None]) -> None:
        """Connects to the server, and carries bytes until either side ends. Raises DrumbeatError."""
        try:
            received = self._down.receive_stream(f"{self._path}/down")
            send = self._up.send_stream(f"{self._path}/up")
            self._local = self._connect()
        except OSError as error:
            self._end()
            raise ConflictError(f"the server can't be reached for a tunnel: {error}") from None
        except BaseException:
            self._end()
            raise
        up = threading.Thread(target=self._carry_up, args=(send,), name="tunnel up", daemon=True)
        down = threading.Thread(target=self._carry_down, args=(received, up, on_end), name="tunnel", daemon=True)
        up.start()
        down.start()

    def _carry_up(self, send: Callable[[bytes], None]) -> None:
        with contextlib.suppress(*_BROKEN):
            while piece := self._local.recv(_PIECE_BYTES):
                send(piece)
            send(b"")
            self._up.finish_stream()
        self._end()

    def _carry_down(self, received: http.client.HTTPResponse, up: threading.Thread, on_end: Callable[[], None]) -> None:
        with contextlib.suppress(*_BROKEN):
            while piece := received.read1(_PIECE_BYTES):
                _count(len(piece))
                self._local.sendall(piece)
        self._end()
        up.join()
        with contextlib.suppress(*_BROKEN):
            self._local.close()
            self._up.close()
            self._down.close()
        on_end()

    def _end(self) -> None:
        """Ends every connection, so that both threads see it."""
        with contextlib.suppress(OSError, AttributeError):  # It may not exist yet.
            self._local.shutdown(socket.SHUT_RDWR)
        self._up.break_off()
        self._down.break_off()


def socket_path(root: str, name: str) -> str:
    """The path of a Unix socket of the sidecars of an attempt."""
    return os.path.join(root, "companions", f"{name}.sock")
