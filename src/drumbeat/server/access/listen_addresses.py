"""Addresses of this machine at which agents on others may be listened for."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass, replace

from drumbeat.model.errors import DrumbeatError, EngineError, UnreachableError

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
NAME = re.compile(r"[a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9_])?", re.ASCII | re.IGNORECASE)
OF_THIS_MACHINE = "localhost"
"""The only name that may stand for loopback alone."""
QUEUE, TRIES = 1024, 20
CARRIERS = ipaddress.ip_network("100.64.0.0/10")
"""Addresses behind a provider's translation (RFC 6598), which overlay networks use as well."""
_PASSING = (
    errno.EADDRNOTAVAIL, errno.EADDRINUSE, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS,
    socket.EAI_AGAIN, socket.EAI_MEMORY,
)  # fmt: skip
"""An interface that isn't up yet, a name server that doesn't answer; no port, file or memory is left."""


@dataclass(frozen=True)
class HostAddress:
    """Where to listen. name: as agents call it. ips: what it stands for; a name may have several."""

    name: str
    ips: tuple[str, ...]

    @property
    def host(self) -> str:
        """As it stands in a URL and in a `Host` header."""
        return f"[{self.name}]" if ":" in self.name else self.name

    def listeners(self, port: int) -> tuple[socket.socket, ...]:
        """Listens at each of its addresses, at one port; 0 = at a free one. Raises OSError."""
        ip, *others = self.ips
        for tries_left in reversed(range(TRIES if port == 0 and others else 1)):
            with contextlib.ExitStack() as opened:
                try:
                    first = opened.enter_context(_listener(ip, port))
                    own = first.getsockname()[1]
                    beside = [opened.enter_context(_listener(other, own)) for other in others]
                except OSError:  # The port that is free at one of them isn't at another.
                    if not tries_left:
                        raise
                    continue
                opened.pop_all()
                return (first, *beside)
        raise AssertionError("unreachable")

    def here(self) -> HostAddress:
        """It with those of its addresses that are this machine's now.

        Raises UnreachableError, EngineError if there are none.
        """
        troubles = {ip: _why_not_here(ip) for ip in self.ips}
        own = tuple(ip for ip, trouble in troubles.items() if trouble is None)
        if own:
            return replace(self, ips=own)
        fix = "See with `ip addr` which addresses this machine has."
        place = self.name if self.ips == (self.name,) else f"{self.name} ({', '.join(self.ips)})"
        raise not_listened(place, next(filter(None, troubles.values())), fix)


def _listener(ip: str, port: int) -> socket.socket:
    found = socket.create_server((ip, port), family=_family(ip), backlog=QUEUE)
    found.setblocking(False)
    return found


def _why_not_here(ip: str) -> OSError | None:
    """Why it can't be listened at this address of a machine, None = it can."""
    try:
        with socket.socket(_family(ip), socket.SOCK_DGRAM) as probe:
            probe.bind((ip, 0))
    except OSError as error:
        return error
    return None


def _family(ip: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in ip else socket.AF_INET


def plain(name: str) -> str:
    """The one way to write an address."""
    return str(literal(name) or name.lower().removesuffix("."))


def address_of(name: str, *, allow_public: bool) -> HostAddress:
    """An IP address, or a name with all that it stands for, if it may be listened at.

    Raises EngineError; UnreachableError where nobody can tell what the name stands for now.
    """
    ip = literal(name)
    ips = [ip] if ip else _looked_up(plain(name))
    shown = name if ip else f"{name} ({', '.join(map(str, ips))})"
    plain_ones = [ip for ip in ips if not (ip.is_unspecified or ip.is_multicast or getattr(ip, "scope_id", None))]
    if not plain_ones:
        what = "agents can't be listened for at this address: on other machines it means another one, or none"
        raise EngineError(what, where=shown, fix="Name one address that those machines reach.")
    private = [ip for ip in plain_ones if allow_public or not is_public(ip)]
    if not private:
        what = "this address is public: anybody on the internet could try to speak to the server"
        fix = "Name one of a private network, or start the server with --allow-public if that is meant."
        raise EngineError(what, where=shown, fix=fix)
    if not ip and plain(name) != OF_THIS_MACHINE:
        private = _beyond_loopback(private, shown)
    return HostAddress(plain(name), tuple(map(str, private)))


def _beyond_loopback(ips: Sequence[IpAddress], shown: str) -> list[IpAddress]:
    """Those at which other machines may find this one. Raises EngineError if there are none."""
    beyond = [ip for ip in ips if not ip.is_loopback]
    if not beyond:
        what = "here, this name stands for a loopback address only, where other machines find themselves"
        fix = "Take the name out of that line of /etc/hosts if DNS knows it, or name an IP address of this machine."
        raise EngineError(what, where=shown, fix=fix)
    return beyond


def not_listened(name: str, error: OSError | ValueError, fix: str = "") -> DrumbeatError:
    """UnreachableError, of no machine, where it may pass by itself; EngineError where a person has to act."""
    why = getattr(error, "strerror", None) or "the name stands for no address"
    what = f"agents can't be listened for: {why}"
    if getattr(error, "errno", None) in _PASSING:
        return UnreachableError(f"{name}: {what}", fix=fix)
    return EngineError(what, where=name[:100], fix=fix)


def is_public(ip: IpAddress) -> bool:
    """Whether the whole internet may reach it."""
    ip = getattr(ip, "ipv4_mapped", None) or ip
    is_own = ip.is_private or ip.is_loopback or ip.is_link_local
    return not is_own and not (ip.version == 4 and ip in CARRIERS)


def literal(name: str) -> IpAddress | None:
    """The IP address that this is; None = it is a name."""
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def _looked_up(name: str) -> list[IpAddress]:
    try:
        if not NAME.fullmatch(name):
            raise ValueError(name)
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        return [ipaddress.ip_address(one) for one in dict.fromkeys(str(place[0]) for *_, place in found)]
    except (OSError, ValueError) as error:
        raise not_listened(name, error, "Name an IP address of this machine.") from None
