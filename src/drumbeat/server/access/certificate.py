"""The certificate that the server shows now, renewed in time."""

from __future__ import annotations

import os
import ssl
import threading
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from drumbeat.server.access.certificate_authority import Authority, Issued

LIFE = timedelta(days=30)
"""How long each certificate of the server is valid."""


class Certificate:
    """For the addresses that it covers. Safe from any thread; never takes longer than to sign."""

    def __init__(self, authority: Authority, now: Callable[[], datetime]) -> None:
        self._authority, self._now = authority, now
        self._lock = threading.Lock()
        self._addresses: frozenset[str] = frozenset()
        self._shown: tuple[Issued, ssl.SSLContext] | None = None

    def cover(self, addresses: Iterable[str]) -> None:
        """Is for these too, from the next connection on."""
        with self._lock:
            if not self._addresses.issuperset(addresses):
                self._addresses = self._addresses.union(addresses)
                self._shown = None

    def context(self) -> ssl.SSLContext:
        """What the next connection is to be made with. Those that are open keep theirs: nothing is cut."""
        with self._lock:
            return self._fresh()[1]

    @property
    def end(self) -> datetime:
        """When the present one ends."""
        with self._lock:
            return self._fresh()[0].end

    def _fresh(self) -> tuple[Issued, ssl.SSLContext]:
        now = self._now()
        if self._shown is None or self._shown[0].is_due(now):
            issued = self._authority.issue(sorted(self._addresses), now, LIFE)
            self._shown = issued, context_of(issued)
        return self._shown


def context_of(issued: Issued) -> ssl.SSLContext:
    """TLS as a server speaks it with that certificate: 1.2 and up."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    # OpenSSL reads keys from files only; this one lies in memory, and is gone with the descriptor.
    with os.fdopen(os.memfd_create("certificate"), "wb") as file:
        file.write(issued.pem)
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
    return context
