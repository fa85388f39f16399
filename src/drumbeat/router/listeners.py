"""What the router listens at: addresses of its table, the door for local replicas, and the socket of its numbers."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import ssl
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from drumbeat.model import home_socket
from drumbeat.model.routing_table import RouterListener, RoutingTable

log = logging.getLogger("drumbeat.router")
DOOR, NUMBERS = "replicas/router.sock", "router.sock"
"""The first has a folder of its own, which containers of replicas see."""
HANDSHAKE_S = 10.0
BACKLOG = 2048
_OPEN_DOOR, _OPEN_NUMBERS = f"unix:{DOOR}", f"unix:{NUMBERS}"


def key_of(listener: RouterListener) -> str:
    """How a listener is named among those that a successor inherits."""
    has_tls = listener.has_tls or listener.for_replicas
    files = [listener.certificate, listener.key] if has_tls else []
    return json.dumps([listener.host, listener.port, listener.for_replicas, listener.endpoint, has_tls, *files])


class Listeners:
    """Opens and closes listening sockets. inherited: descriptors by key, of the router before."""

    def __init__(self, folder: Path, make_client: Callable[[str], asyncio.Protocol], inherited: dict[str, int]) -> None:
        self._folder, self._make_client = folder, make_client
        self._sockets = {key: socket.socket(fileno=descriptor) for key, descriptor in inherited.items()}
        self._servers: dict[str, asyncio.AbstractServer] = {}
        self._certificates: dict[tuple[str, str], ListenerCertificate] = {}
        self._wanted: dict[str, RouterListener] = {}
        self._make_door: Callable[[], asyncio.Protocol] | None = None
        self._problems: dict[str, str] = {}
        """Why it can't listen at an address, as it was last logged."""

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
                path = self._folder / name
                path.parent.mkdir(mode=0o700, exist_ok=True)
                self._sockets[key] = home_socket.listen(str(path))
            self._sockets[key].settimeout(0)
            self._servers[key] = await asyncio.get_running_loop().create_unix_server(
                make, sock=self._sockets[key].dup(), backlog=BACKLOG
            )

    async def follow(
        self, table: RoutingTable, make_door: Callable[[], asyncio.Protocol], *, with_clients: bool = True
    ) -> None:
        """Listens at the addresses of a table, and no longer at others. with_clients: not at its doors only."""
        listeners = [one if one.certificate else replace(one, certificate=table.certificate) for one in table.listeners]
        self._wanted = {key_of(one): one for one in listeners if with_clients or one.for_replicas}
        self._make_door = make_door
        for key in [one for one in self._servers if one not in self._wanted and not one.startswith("unix:")]:
            self._servers.pop(key).close()
            self._sockets.pop(key).close()
        await self.look()

    async def look(self) -> None:
        """Listens at addresses of the table that weren't there before, and reads certificates that were renewed."""
        for certificate in self._certificates.values():
            certificate.renew()
        for key, one in self._wanted.items():
            if key in self._servers or self._make_door is None:
                continue
            try:
                await self._open(key, one, self._make_door)
            except OSError as error:
                if self._problems.get(key) != str(error):
                    log.warning("the router can't listen at %s:%d: %s", one.host, one.port, error)
                self._problems[key] = str(error)
            else:
                self._problems.pop(key, None)

    async def _open(self, key: str, listener: RouterListener, make_door: Callable[[], asyncio.Protocol]) -> None:
        context = self._context(listener) if listener.has_tls or listener.for_replicas else None
        if key not in self._sockets:
            family = socket.AF_INET6 if ":" in listener.host else socket.AF_INET
            self._sockets[key] = socket.create_server((listener.host, listener.port), family=family, backlog=BACKLOG)
        endpoint = listener.endpoint
        make = make_door if listener.for_replicas else lambda: self._make_client(endpoint)
        self._servers[key] = await asyncio.get_running_loop().create_server(
            make, sock=self._sockets[key].dup(), backlog=BACKLOG, ssl=context,
            ssl_handshake_timeout=HANDSHAKE_S if context else None,
        )  # fmt: skip

    def _context(self, listener: RouterListener) -> ssl.SSLContext:
        """Raises OSError."""
        if not listener.certificate:
            raise OSError("its table names no certificate for TLS")
        files = listener.certificate, listener.key
        certificate = self._certificates.setdefault(files, ListenerCertificate(*files))
        certificate.renew()
        if not certificate.is_usable:
            raise OSError(f"the certificate in {listener.certificate} can't be used")
        return certificate.context

    def close(self, *, for_replicas: bool) -> None:
        """Accepts no more replicas, or no more clients; a successor goes on."""
        for key in list(self._servers):
            is_door = key == _OPEN_DOOR or (not key.startswith("unix:") and json.loads(key)[2])
            if is_door == for_replicas:
                self._servers.pop(key).close()


class ListenerCertificate:
    """The TLS context of files. Open connections keep the certificate that they began with."""

    def __init__(self, certificate: str, key: str) -> None:
        self._certificate, self._key = certificate, key
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
        self.is_usable = False
        self._seen: tuple[int, ...] | None = None

    def renew(self) -> None:
        """Reads the files again if one of them has changed."""
        try:
            seen = tuple(os.stat(one).st_mtime_ns for one in (self._certificate, self._key) if one)  # noqa: PTH116
        except OSError:
            seen = ()
        if seen == self._seen:
            return
        self._seen = seen
        try:
            # Handshakes run in this thread, too, so none is under way here.
            self.context.load_cert_chain(self._certificate, self._key or None)
            self.is_usable = True
        except (OSError, ssl.SSLError) as error:
            log.warning("the certificate in %s can't be used: %s", self._certificate, error)
