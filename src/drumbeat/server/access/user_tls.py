"""TLS at the server's own port, for users: a certificate of the home's authority, or of files that others renew.

Each connection gets the context of that moment, so that a renewed certificate needs no restart.
"""

from __future__ import annotations

import logging
import os
import ssl
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from drumbeat.model.errors import RefusedError
from drumbeat.server.access.certificate import strict_context

if TYPE_CHECKING:
    from drumbeat.server.access.agent_listeners import AgentListenerRules, TlsAgentListeners

log = logging.getLogger("drumbeat.server")


class CertificateSource(Protocol):
    """Gives the TLS context for the next connection."""

    def context(self) -> ssl.SSLContext:
        """Raises EngineError, RefusedError."""
        ...

    @property
    def ca(self) -> str:
        """The authority's certificate (PEM), if it is the home's own; "" = clients know it already."""
        ...


class OwnCertificate:
    """A certificate of the home's authority, which also signs those for agents. names: what it covers."""

    def __init__(self, agents: TlsAgentListeners, names: tuple[str, ...]) -> None:
        self._agents, self._names = agents, names

    def context(self) -> ssl.SSLContext:
        """The context with a certificate that is renewed when a third of its life is left. Raises EngineError."""
        return self._agents.certificate_for(self._names).context()

    @property
    def ca(self) -> str:
        """The authority's certificate (PEM). Raises EngineError."""
        return self._agents.ca


class CertificateFiles:
    """A certificate chain and its key in files (PEM), read again when one of them has changed. Thread-safe."""

    ca = ""

    def __init__(self, chain: Path, key: Path) -> None:
        """Raises RefusedError where the files can't be used."""
        self._chain, self._key = chain, key
        self._lock = threading.Lock()
        self._seen = self._stamp()
        self._context = self._read()

    def context(self) -> ssl.SSLContext:
        """The context with the files' certificate. The one before is kept while the new files can't be used."""
        with self._lock:
            stamp = self._stamp()
            if stamp != self._seen:
                self._seen = stamp
                try:
                    self._context = self._read()
                    log.info("read a new certificate from %s", self._chain)
                except RefusedError as error:
                    log.warning("the certificate before is kept: %s", error)
            return self._context

    def _stamp(self) -> tuple[tuple[int, int, int], ...]:
        return tuple(_stamp(one) for one in (self._chain, self._key))

    def _read(self) -> ssl.SSLContext:
        context = strict_context()
        try:
            context.load_cert_chain(self._chain, self._key)
        except ssl.SSLError as error:
            fix = "Both are PEM: the certificate first, then those that signed it; the key without a password."
            what = f"the certificate and its key can't be used: {error.reason or error}"
            raise RefusedError(what, where=f"{self._chain}, {self._key}", fix=fix) from None
        except OSError as error:
            unread = next((one for one in (self._chain, self._key) if not os.access(one, os.R_OK)), self._chain)
            fix = "Give the server's user read access to it, and to the folders above it."
            raise RefusedError(f"the file can't be read: {error.strerror}", where=str(unread), fix=fix) from None
        return context


def _stamp(file: Path) -> tuple[int, int, int]:
    try:
        status = file.stat()
    except OSError:
        return 0, 0, 0
    return status.st_ino, status.st_mtime_ns, status.st_size


@dataclass(frozen=True)
class UserTls:
    """TLS at the server's own port. Implements `TlsListeners`."""

    source: CertificateSource
    rules: AgentListenerRules
    """The limits for unauthenticated clients, which are those of agents."""

    def context(self) -> ssl.SSLContext:
        """The TLS context for the next connection. Raises EngineError."""
        return self.source.context()

    def switching_context(self) -> ssl.SSLContext:
        """Returns a context that takes the current certificate at each handshake, for servers that take only one."""
        first = strict_context()

        def renew(connection: ssl.SSLObject | ssl.SSLSocket, _name: str | None, _context: ssl.SSLContext) -> None:
            connection.context = self.context()

        first.sni_callback = renew
        return first
