"""The address at which foreign clients of this machine call by TLS: opened when it is first asked for, and at each
start from then on, at the same port.
"""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from drumbeat.model.errors import DrumbeatError, StorageError
from drumbeat.server.home import write_whole
from drumbeat.server.options import quiet_ports

if TYPE_CHECKING:
    import ssl

    from drumbeat.server.access.agent_listeners import AgentListenerRules, ConnectionAcceptor, TlsAgentListeners

log = logging.getLogger("drumbeat.server")

QUEUE = 1024
LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class HttpsAddress:
    """Where a listener is. host: the address to listen on. names: further names by which clients call."""

    host: str = "127.0.0.1"
    names: tuple[str, ...] = ()

    @property
    def all_names(self) -> tuple[str, ...]:
        """The names in the certificate."""
        own = () if self.host in ("0.0.0.0", "::") else (self.host,)  # noqa: S104 - the options allowed it
        return tuple(dict.fromkeys((*own, *self.names, *LOOPBACK)))

    @property
    def shown(self) -> str:
        """The name in URLs, in brackets if it is an IPv6 address."""
        name = self.all_names[0]
        return f"[{name}]" if ":" in name else name


class HttpsListener:
    """Listens for foreign clients. Thread-safe. file: keeps the port, and until when the server stays for clients."""

    def __init__(self, address: HttpsAddress, file: Path, agents: TlsAgentListeners) -> None:
        self.address, self._file, self._agents = address, file, agents
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._acceptor: ConnectionAcceptor | None = None
        self._port, self._promised = _read(file)

    @property
    def rules(self) -> AgentListenerRules:
        """The limits for unauthenticated clients, which are those of agents."""
        return self._agents.rules

    def url(self) -> str:
        """Returns the URL for clients, "" = it isn't open."""
        return f"https://{self.address.shown}:{self._port}" if self._socket else ""

    def hosts(self) -> frozenset[str]:
        """The values of the `Host` header that are accepted."""
        names = [f"[{one}]" if ":" in one else one.lower() for one in self.address.all_names]
        return frozenset(f"{one}:{self._port}" for one in names)

    @property
    def ca(self) -> str:
        """The authority's certificate (PEM), by which clients recognize the server. Raises EngineError."""
        return self._agents.ca

    def context(self) -> ssl.SSLContext:
        """The TLS context for the next connection. Raises EngineError."""
        return self._agents.certificate_for(self.address.all_names).context()

    def open(self, until: float) -> str:
        """Listens, and returns the URL. until: seconds since the epoch; the server isn't idle before then.

        Raises EngineError, StorageError.
        """
        self.context()  # Raises errors of the authority before anything is opened.
        with self._lock:
            if self._socket is None:
                self._socket = self._bound()
                self._port = self._socket.getsockname()[1]
                if self._acceptor is not None:
                    self._acceptor.accept_from(self._socket)
                log.info("listening for Azure's clients on %s", self.url())
            self._promised = max(self._promised, until)
            write_whole(self._file, json.dumps({"port": self._port, "until": self._promised}) + "\n")
        return self.url()

    def reopen(self) -> None:
        """Opens the listener of the server's previous run, if a client may still call."""
        if self._port and self.is_promised():
            try:
                self.open(0.0)
            except (DrumbeatError, OSError) as error:
                log.warning("the listener for Azure's clients can't be opened again: %s", error)

    def is_promised(self) -> bool:
        """Whether a client has a token that is still valid, so that the server must not stop when idle."""
        return time.time() < self._promised

    def start_accepting(self, acceptor: ConnectionAcceptor) -> None:
        """Has an acceptor accept the connections, now or when the listener is opened."""
        with self._lock:
            self._acceptor = acceptor
            if self._socket is not None:
                acceptor.accept_from(self._socket)

    def stop_accepting(self) -> None:
        """Lets new connections wait in the backlog."""
        with self._lock:
            self._acceptor = None

    def close(self) -> None:
        """Closes the listener. Its port is kept for the next start."""
        with self._lock:
            listener, self._socket = self._socket, None
            if listener is None:
                return
            with contextlib.suppress(OSError):  # This wakes the task that accepts, which closes the socket.
                listener.shutdown(socket.SHUT_RDWR)
            if self._acceptor is None:
                listener.close()

    def _bound(self) -> socket.socket:
        host, reason = self.address.host, ""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        for port in dict.fromkeys([*filter(None, [self._port]), *quiet_ports(), 0]):
            try:
                listener = socket.create_server((host, port), family=family, backlog=QUEUE)
            except OSError as error:
                reason = error.strerror or str(error)
            else:
                listener.setblocking(False)
                return listener
        raise StorageError(f"the server can't listen for Azure's clients: {reason}", where=host)


def _read(path: Path) -> tuple[int, float]:
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        kept = json.loads(path.read_text())
        port, until = int(kept["port"]), float(kept["until"])
        return (port if 0 < port < 65536 else 0), until
    return 0, 0.0
