"""Whether this machine can resolve the name by which its agents are to call the server, before any is started."""

from __future__ import annotations

import ipaddress
import socket
import time
from collections.abc import Sequence
from urllib.parse import urlsplit

FIX = "Make the name known there (DNS, /etc/hosts), or set `server_address` of the compute to an IP address."
_PAUSE_S = 1.0


def require_resolvable(servers: Sequence[str], within_s: float) -> None:
    """Raises socket.gaierror with a sentence when none of these URLs has an IP address, or a name that is known here.

    within_s: a machine that has just started may not have its name servers yet.
    """
    deadline = time.monotonic() + within_s
    while troubles := _troubles(servers):
        if time.monotonic() > deadline:
            error = next(iter(troubles.values()))
            names = " or ".join(troubles)
            what = f"machine {socket.gethostname()} can't resolve {names}, where its agents are to call the server"
            raise socket.gaierror(error.errno, f"{what}: {error.strerror}. {FIX}")
        time.sleep(_PAUSE_S)


def _troubles(servers: Sequence[str]) -> dict[str, socket.gaierror]:
    """Why each name isn't known here; empty when one of the servers can be found."""
    troubles: dict[str, socket.gaierror] = {}
    for host in [urlsplit(server).hostname or "" for server in servers]:
        if _is_literal(host):
            return {}
        try:
            socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except socket.gaierror as error:
            troubles[host] = error
        else:
            return {}
    return troubles


def _is_literal(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
