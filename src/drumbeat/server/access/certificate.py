"""The server's TLS certificate, renewed before it expires."""

from __future__ import annotations

import os
import ssl
import threading
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from drumbeat.server.access.certificate_authority import Authority, Issued

LIFE = timedelta(days=30)
"""Validity of each certificate of the server."""


class Certificate:
    """Issues certificates for the addresses that it covers. Thread-safe; blocks only while signing."""

    def __init__(self, authority: Authority, now: Callable[[], datetime]) -> None:
        self._authority, self._now = authority, now
        self._lock = threading.Lock()
        self._addresses: frozenset[str] = frozenset()
        self._shown: tuple[Issued, ssl.SSLContext] | None = None

    def cover(self, addresses: Iterable[str]) -> None:
        """Adds addresses to the certificates of later connections."""
        with self._lock:
            if not self._addresses.issuperset(addresses):
                self._addresses = self._addresses.union(addresses)
                self._shown = None

    def context(self) -> ssl.SSLContext:
        """The TLS context for the next connection. Open connections keep theirs."""
        with self._lock:
            return self._fresh()[1]

    @property
    def end(self) -> datetime:
        """When the current certificate expires."""
        with self._lock:
            return self._fresh()[0].end

    def _fresh(self) -> tuple[Issued, ssl.SSLContext]:
        now = self._now()
        if self._shown is None or self._shown[0].is_due(now):
            issued = self._authority.issue(sorted(self._addresses), now, LIFE)
            self._shown = issued, tls_context(issued)
        return self._shown


def strict_context() -> ssl.SSLContext:
    """Returns a server's TLS context (1.2 and later), without a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    return context


def tls_context(issued: Issued) -> ssl.SSLContext:
    """Returns a server's TLS context with that certificate."""
    context = strict_context()
    # OpenSSL reads keys only from files; this one is in memory and vanishes with its descriptor.
    with os.fdopen(os.memfd_create("certificate"), "wb") as file:
        file.write(issued.pem)
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
    return context
