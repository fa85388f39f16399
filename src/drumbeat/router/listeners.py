"""What the router listens at: addresses of its table, the door for local replicas, and the socket of its numbers."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

from drumbeat.model import home_socket
from drumbeat.model.routing_table import RouterListener, RoutingTable

log = logging.getLogger("drumbeat.router")
DOOR, NUMBERS = "replicas.sock", "router.sock"
HANDSHAKE_S = 10.0
BACKLOG = 2048
_OPEN_DOOR, _OPEN_NUMBERS = f"unix:{DOOR}", f"unix:{NUMBERS}"


def key_of(listener: RouterListener) -> str:
    """How a listener is named among those that a successor inherits."""
    return json.dumps([listener.host, listener.port, listener.for_replicas, listener.endpoint, listener.has_tls])


class Listeners:
    """Opens and closes listening sockets. inherited: descriptors by key, of the router before."""

    def __init__(self, folder: Path, make_client: Callable[[str], asyncio.Protocol], inherited: dict[str, int]) -> None:
        self._folder, self._make_client = folder, make_client
        self._sockets = {key: socket.socket(fileno=descriptor) for key, descriptor in inherited.items()}
        self._servers: dict[str, asyncio.AbstractServer] = {}
        self._context: ssl.SSLContext | None = None
        self._certificate_time = 0

    @property
    def descriptors(self) -> dict[str, int]:
        """The listening sockets, for a successor."""
        return {key: one.fileno() for key, one in self._sockets.items()}

    @property
    def bound(self) -> dict[str, str]:
        """The addresses at which it listens, by key."""
        named: dict[str, str] = {}
        for key, one in self._sockets.items():
            name = one.getsockname()
            named[key] = f"{name[0]}:{name[1]}" if isinstance(name, tuple) else str(name)
        return named

    async def open_local(
        self, make_door: Callable[[], asyncio.Protocol], make_numbers: Callable[[], asyncio.Protocol]
    ) -> None:
        """Opens the two Unix sockets in the folder. Raises OSError."""
        for key, name, make in ((_OPEN_DOOR, DOOR, make_door), (_OPEN_NUMBERS, NUMBERS, make_numbers)):
            if key in self._servers:
                continue
            if key not in self._sockets:
                self._sockets[key] = home_socket.listen(str(self._folder / name))
            self._sockets[key].settimeout(0)
            self._servers[key] = await asyncio.get_running_loop().create_unix_server(
                make, sock=self._sockets[key].dup(), backlog=BACKLOG
            )

    async def follow(
        self, table: RoutingTable, make_door: Callable[[], asyncio.Protocol], *, with_clients: bool = True
    ) -> None:
        """Listens at the addresses of a table, and no longer at others. with_clients: not at its doors only."""
        wanted = {key_of(one): one for one in table.listeners if with_clients or one.for_replicas}
        for key in [one for one in self._servers if one not in wanted and not one.startswith("unix:")]:
            self._servers.pop(key).close()
            self._sockets.pop(key).close()
        self._renew(table.certificate)
        for key, one in wanted.items():
            if key in self._servers:
                continue
            try:
                await self._open(key, one, make_door)
            except OSError as error:
                log.warning("the router can't listen at %s:%d: %s", one.host, one.port, error)

    async def _open(self, key: str, listener: RouterListener, make_door: Callable[[], asyncio.Protocol]) -> None:
        if (listener.has_tls or listener.for_replicas) and self._context is None:
            raise OSError("its table names no certificate for TLS")
        if key not in self._sockets:
            family = socket.AF_INET6 if ":" in listener.host else socket.AF_INET
            self._sockets[key] = socket.create_server((listener.host, listener.port), family=family, backlog=BACKLOG)
        endpoint = listener.endpoint
        make = make_door if listener.for_replicas else lambda: self._make_client(endpoint)
        context = self._context if listener.has_tls or listener.for_replicas else None
        self._servers[key] = await asyncio.get_running_loop().create_server(
            make, sock=self._sockets[key].dup(), backlog=BACKLOG, ssl=context,
            ssl_handshake_timeout=HANDSHAKE_S if context else None,
        )  # fmt: skip

    def _renew(self, certificate: str) -> None:
        """Reads the certificate again when its file has changed. Open connections keep theirs."""
        if not certificate:
            return
        try:
            changed = os.stat(certificate).st_mtime_ns  # noqa: PTH116 - its path is a string of the table
            if changed == self._certificate_time:
                return
            if self._context is None:
                self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                self._context.minimum_version = ssl.TLSVersion.TLSv1_2
                self._context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
            # Handshakes run in this thread, too, so none is under way here.
            self._context.load_cert_chain(certificate)
            self._certificate_time = changed
        except (OSError, ssl.SSLError) as error:
            log.warning("the certificate in %s can't be used: %s", certificate, error)

    def close(self, *, for_replicas: bool) -> None:
        """Accepts no more replicas, or no more clients; a successor goes on."""
        for key in list(self._servers):
            is_door = key == _OPEN_DOOR or (not key.startswith("unix:") and json.loads(key)[2])
            if is_door == for_replicas:
                self._servers.pop(key).close()
