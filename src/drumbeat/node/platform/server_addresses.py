"""The servers that an agent knows: those of its enrolment, and those that a server announced later.

Announced addresses are stored in the node's folder, for a restarted agent and the node's other processes. The engine
writes them there, too (`drumbeat.node.host.gangs`), when the server has moved to an address that agents don't know.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from urllib.parse import urlsplit

from drumbeat.model import home_socket
from drumbeat.model.agent import ANNOUNCED, Enrolment
from drumbeat.node.platform import network_interfaces

_UNWRITTEN: dict[str, list[str]] = {}
"""By attempt folder, the addresses announced to this process that a full disk didn't take."""


def remember(enrolment: Enrolment, servers: Sequence[str]) -> None:
    """Stores the addresses that a server announced, replacing earlier ones; only in memory if they can't be written."""
    if list(servers) == _announced(enrolment):
        return
    _UNWRITTEN[enrolment.root], place = list(servers), _place(enrolment)
    with contextlib.suppress(OSError):
        with open(f"{place}.new", "w", encoding="utf-8") as file:
            json.dump(list(servers), file)
        os.replace(f"{place}.new", place)
        del _UNWRITTEN[enrolment.root]


def latest_addresses(enrolment: Enrolment) -> tuple[str, ...]:
    """Returns the addresses that were announced last, those of the enrolment if none were."""
    return tuple(_announced(enrolment)) or enrolment.servers


class Servers:
    """The servers that may receive the agent's secret, in order of preference.

    The last announced addresses precede those of the enrolment, which may meanwhile belong to another server. An agent
    whose servers are on another machine never calls its own machine because of an announcement.
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
        """Reads newly announced addresses; the preferred one stays first while it is still among them."""
        given = [each for each in self._enrolment.servers if _is_safe(each)]
        # An enrolment by the previous version names a port of this machine, which isn't called.
        have_tls = {each.startswith("https:") for each in self._enrolment.servers}
        announced = [
            each for each in _announced(self._enrolment) if _is_safe(each) and each.startswith("https:") in have_tls
        ]
        addresses = list(dict.fromkeys([*announced, *given]))
        kept = [each for each in self._all if each in addresses]
        self._all = [*kept, *(each for each in addresses if each not in kept)]
        self._living = set(announced or given)

    @property
    def first(self) -> str:
        """The address to call."""
        return self._all[0]

    @property
    def is_first_trusted(self) -> bool:
        """Whether only a server of the job can have the first address.

        It uses TLS, was announced last, or none was announced. Another home may be where a server's was.
        """
        return self.first in self._living or self.first.startswith("https:")

    def next(self) -> None:
        """Moves the first address to the end, after it failed."""
        self._all.append(self._all.pop(0))


def _announced(enrolment: Enrolment) -> list[str]:
    if enrolment.root in _UNWRITTEN:
        return _UNWRITTEN[enrolment.root]
    with contextlib.suppress(OSError, ValueError, TypeError), open(_place(enrolment), encoding="utf-8") as file:
        return [str(each) for each in json.load(file)]
    return []


def _place(enrolment: Enrolment) -> str:
    return f"{enrolment.root}/{ANNOUNCED}"


def _is_safe(server: str) -> bool:
    """Whether the secret may be sent to an address: over TLS, or by a socket whose other end is this user."""
    return server.startswith(("https:", home_socket.SCHEME))


def address_towards(servers: Sequence[str]) -> str:
    """The address of this node from which the kernel would send to the first known server (nothing is sent)."""
    for server in servers:
        parts = urlsplit(server)
        with contextlib.suppress(OSError):
            if parts.hostname:
                return network_interfaces.route(parts.hostname, parts.port or 443)
    return "127.0.0.1"
