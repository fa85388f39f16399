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

_TOLD: dict[str, list[str]] = {}
"""By folder: what this process was told itself, which it knows on a full disk, too."""


def remember(enrolment: Enrolment, servers: Sequence[str]) -> None:
    """Keeps what a server told, in place of what was told before. What can't be written only this process knows."""
    if list(servers) == _told(enrolment):
        return
    _TOLD[enrolment.root], place = list(servers), _place(enrolment)
    with contextlib.suppress(OSError):
        with open(f"{place}.new", "w", encoding="utf-8") as file:
            json.dump(list(servers), file)
        os.replace(f"{place}.new", place)


class Servers:
    """The servers that the agent's secret may be said to, the one to call first.

    Those that were told of last, and then those of the enrolment: one that isn't told of any more may have left its
    address to a stranger. An agent whose servers are on another machine is never sent to its own by what one told.
    """

    def __init__(self, enrolment: Enrolment) -> None:
        self._enrolment = enrolment
        self._all: list[str] = []
        self._living: set[str] = set()
        self.look()

    def __len__(self) -> int:
        return len(self._all)

    def __str__(self) -> str:
        return ", ".join(self._all)

    def look(self) -> None:
        """Learns what was told meanwhile; the one to call stays the same, if it is still known."""
        given = [each for each in self._enrolment.servers if _is_safe(each)]
        schemes = {urlsplit(each).scheme for each in given}
        told = [each for each in _told(self._enrolment) if _is_safe(each) and urlsplit(each).scheme in schemes]
        known = list(dict.fromkeys([*told, *given]))
        kept = [each for each in self._all if each in known]
        self._all = [*kept, *(each for each in known if each not in kept)]
        self._living = set(told or given)

    @property
    def first(self) -> str:
        """The one to call."""
        return self._all[0]

    @property
    def is_first_believed(self) -> bool:
        """Whether no stranger can have its address: it shows the right certificate, or was told of last, or nothing has
        been told yet.
        """
        return self.first in self._living or self.first.startswith("https:")

    def next(self) -> None:
        """The one that was called isn't any good now."""
        self._all.append(self._all.pop(0))


def _told(enrolment: Enrolment) -> list[str]:
    if enrolment.root in _TOLD:
        return _TOLD[enrolment.root]
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
