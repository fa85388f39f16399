"""Which servers an agent knows: those of its enrolment, and those that a server has told it of since.

What was told lies in the node's folder, where an agent that is started again and the node's other processes find it.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import socket
from collections.abc import Sequence
from urllib.parse import urlsplit

from drumbeat.protocol.agent import Enrolment


def remember(enrolment: Enrolment, servers: Sequence[str]) -> None:
    """Keeps what a server told, in place of what was told before. Where it can't be kept, nothing is lost by it."""
    if list(servers) == _told(enrolment):
        return
    place = _place(enrolment)
    with contextlib.suppress(OSError):
        with open(f"{place}.new", "w", encoding="utf-8") as file:
            json.dump(list(servers), file)
        os.replace(f"{place}.new", place)


def known(enrolment: Enrolment, before: Sequence[str] = ()) -> list[str]:
    """All of them that the secret may be said to; those of `before` that are still known come first.

    An agent whose servers are on another machine is never sent to its own by what one of them told.
    """
    schemes = {urlsplit(each).scheme for each in enrolment.servers}
    told = [each for each in _told(enrolment) if urlsplit(each).scheme in schemes]
    safe = [each for each in dict.fromkeys([*enrolment.servers, *told]) if _is_safe(each)]
    kept = [each for each in before if each in safe]
    return [*kept, *(each for each in safe if each not in kept)]


def _told(enrolment: Enrolment) -> list[str]:
    with contextlib.suppress(OSError, ValueError, TypeError), open(_place(enrolment), encoding="utf-8") as file:
        return [str(each) for each in json.load(file)]
    return []


def _place(enrolment: Enrolment) -> str:
    return f"{enrolment.root}/servers.json"


def _is_safe(server: str) -> bool:
    """Whether the secret may be said there: over TLS, or without leaving this machine."""
    parts = urlsplit(server)
    if parts.scheme == "https" or (parts.scheme, parts.hostname) == ("http", "localhost"):
        return True
    try:
        return parts.scheme == "http" and ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return False


def address_towards(servers: Sequence[str]) -> str:
    """The address of this node that the kernel would reach the first known server from (nothing is sent)."""
    for server in servers:
        parts = urlsplit(server)
        with contextlib.suppress(OSError):
            return _route(parts.hostname or "", parts.port or 80)
    return "127.0.0.1"


def _route(host: str, port: int) -> str:
    family, kind, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as probe:
        probe.connect(place)
        return probe.getsockname()[0]
