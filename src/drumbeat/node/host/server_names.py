"""Checks, before any agent is started, that this machine can resolve the server's name."""

from __future__ import annotations

import ipaddress
import socket
import threading
import time
from collections.abc import Sequence
from urllib.parse import urlsplit

FIX = "Make the name resolvable there (DNS, /etc/hosts), or set `server_address` of the compute to an IP address."
_PAUSE_S = 1.0
_LAST_ANSWER_S = 2.0
"""How much longer a name server may take for the last request."""


def require_resolvable(servers: Sequence[str], within_s: float) -> None:
    """Raises socket.gaierror with a message if none of these URLs has an IP address or a resolvable name.

    within_s: a machine that has just started may not have its name servers yet.
    """
    hosts = list(dict.fromkeys(urlsplit(server).hostname or "" for server in servers))
    if not hosts or any(map(_is_literal, hosts)):
        return
    lookup = _Lookup(hosts, time.monotonic() + within_s)
    # A thread, because nothing else limits the resolver's time.
    thread = threading.Thread(target=lookup.run, name="names", daemon=True)
    thread.start()
    thread.join(within_s + _LAST_ANSWER_S)
    if not lookup.is_known:
        error = next(iter(lookup.troubles.values()), _NO_ANSWER)
        names = " or ".join(hosts)
        what = f"machine {socket.gethostname()} can't resolve {names}, at which its agents must call the server"
        raise socket.gaierror(error.errno, f"{what}: {error.strerror}. {FIX}")


_NO_ANSWER = socket.gaierror(socket.EAI_AGAIN, "no name server answers")
_NO_NAME = socket.gaierror(socket.EAI_NONAME, "names can't have empty parts, or parts of more than 63 characters")


class _Lookup:
    """Resolves names repeatedly until one succeeds or the deadline is over."""

    def __init__(self, hosts: Sequence[str], deadline: float) -> None:
        self._hosts, self._deadline = hosts, deadline
        self.is_known = False
        self.troubles: dict[str, OSError] = {}

    def run(self) -> None:
        while not any(map(self._is_found, self._hosts)):
            if time.monotonic() > self._deadline:
                return
            time.sleep(_PAUSE_S)
        self.is_known = True

    def _is_found(self, host: str) -> bool:
        try:
            socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except OSError as error:
            self.troubles[host] = error
        except UnicodeError:
            self.troubles[host] = _NO_NAME
        else:
            return True
        return False


def _is_literal(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
