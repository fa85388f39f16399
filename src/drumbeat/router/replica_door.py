"""Where replicas dial in: each connection begins with a request that names the replica and shows its secret."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

from drumbeat.model import home_socket
from drumbeat.router.admission import is_secret
from drumbeat.router.peer_silence import TcpSocket
from drumbeat.router.pool import PermitPool
from drumbeat.router.replica_connection import ReplicaConnection, as_transport

HEAD_TIMEOUT_S = 10.0
_MAX_HEAD = 8 << 10
PROTOCOL = "drumbeat-replica/1"
_SWITCH = f"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {PROTOCOL}\r\n\r\n".encode()


class ReplicaDoor(asyncio.Protocol):
    """A connection at the door. pools: the pool of an endpoint and a deployment."""

    def __init__(self, pools: Callable[[str, str], PermitPool | None]) -> None:
        self._pools = pools
        self._transport: asyncio.Transport | None = None
        self._connection: ReplicaConnection | None = None
        self._tcp: TcpSocket | None = None
        self._head = b""
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = as_transport(transport)
        connected: Any = transport.get_extra_info("socket")
        if connected.family == socket.AF_UNIX:
            try:
                home_socket.require_trusted(connected)
            except OSError:
                self._transport.abort()
                return
        else:
            self._tcp = connected
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            # A replica whose machine is gone says nothing: `peer_silence.py` looks at how probes are answered.
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 20)
        self._timer = asyncio.get_running_loop().call_later(HEAD_TIMEOUT_S, self._transport.abort)

    def data_received(self, data: bytes) -> None:
        if self._connection is not None:
            self._connection.received(data)
            return
        self._head += data
        head, end, _ = self._head.partition(b"\r\n\r\n")
        if end:
            self._admit(head)
        elif len(self._head) > _MAX_HEAD:
            self._refuse(431, "The head is too long.")

    def _admit(self, head: bytes) -> None:
        lines = head.decode("latin-1").split("\r\n")
        headers = {
            name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])
        }
        if headers.get("upgrade") != PROTOCOL:
            self._refuse(400, f"Replicas dial in with Upgrade: {PROTOCOL}.")
            return
        endpoint, deployment = headers.get("drumbeat-endpoint", ""), headers.get("drumbeat-deployment", "")
        replica = headers.get("drumbeat-replica", "")
        pool = self._pools(endpoint, deployment)
        known_digest = pool.route.replicas.get(replica, "") if pool is not None else ""
        shown = headers.get("authorization", "").removeprefix("Bearer ")
        # The comparison is made for unknown replicas, too, so that its time tells nothing.
        if not is_secret(shown, (known_digest or "0" * 64,)) or pool is None or self._transport is None:
            self._refuse(403, f"No replica {replica} of {endpoint}/{deployment} has this secret.")
            return
        if self._timer is not None:
            self._timer.cancel()
        self._transport.write(_SWITCH)
        self._connection = ReplicaConnection(
            pool, replica, self._transport, headers.get("drumbeat-process", ""), self._tcp
        )
        pool.add(self._connection)

    def _refuse(self, status: int, message: str) -> None:
        if self._transport is not None:
            body = message.encode()
            head = f"HTTP/1.1 {status} Refused\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            self._transport.write(head.encode() + body)
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._connection is not None:
            self._connection.lost()
