"""Addresses of this machine on which the server may listen for agents on other machines."""

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
"""The only name that may resolve to loopback alone."""
QUEUE, TRIES = 1024, 20
CARRIERS = ipaddress.ip_network("100.64.0.0/10")
"""Addresses of carrier-grade NAT (RFC 6598), which overlay networks use as well."""
_PASSING = (
    errno.EADDRNOTAVAIL, errno.EADDRINUSE, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS,
    socket.EAI_AGAIN, socket.EAI_MEMORY,
)  # fmt: skip
"""Errors that may pass: an interface is down, a name server doesn't answer, no port, file or memory is left."""


@dataclass(frozen=True)
class HostAddress:
    """An address to listen on. name: the one that agents use. ips: what it resolves to."""

    name: str
    ips: tuple[str, ...]

    @property
    def host(self) -> str:
        """The address as in a URL or a `Host` header."""
        return f"[{self.name}]" if ":" in self.name else self.name

    def listeners(self, port: int) -> tuple[socket.socket, ...]:
        """Listens on each of its IP addresses, on one port; 0 = a free one. Raises OSError."""
        ip, *others = self.ips
        for tries_left in reversed(range(TRIES if port == 0 and others else 1)):
            with contextlib.ExitStack() as opened:
                try:
                    first = opened.enter_context(_listener(ip, port))
                    own = first.getsockname()[1]
                    beside = [opened.enter_context(_listener(other, own)) for other in others]
                except OSError:  # A port that is free on one address may be taken on another.
                    if not tries_left:
                        raise
                    continue
                opened.pop_all()
                return (first, *beside)
        raise AssertionError("unreachable")

    def here(self) -> HostAddress:
        """Returns the address with those of its IP addresses that belong to this machine now.

        Raises UnreachableError or EngineError if none does.
        """
        troubles = {ip: _why_not_here(ip) for ip in self.ips}
        own = tuple(ip for ip, trouble in troubles.items() if trouble is None)
        if own:
            return replace(self, ips=own)
        fix = "List the addresses of this machine: ip addr."
        place = self.name if self.ips == (self.name,) else f"{self.name} ({', '.join(self.ips)})"
        raise not_listened(place, next(filter(None, troubles.values())), fix)


def _listener(ip: str, port: int) -> socket.socket:
    listener = socket.create_server((ip, port), family=_family(ip), backlog=QUEUE)
    listener.setblocking(False)
    return listener


def _why_not_here(ip: str) -> OSError | None:
    """Returns why this machine can't listen on an address, None = it can."""
    try:
        with socket.socket(_family(ip), socket.SOCK_DGRAM) as probe:
            probe.bind((ip, 0))
    except OSError as error:
        return error
    return None


def _family(ip: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in ip else socket.AF_INET


def plain(name: str) -> str:
    """Returns the canonical form of an address."""
    return str(literal(name) or name.lower().removesuffix("."))


def resolve_address(name: str, *, allow_public: bool) -> HostAddress:
    """Resolves an IP address or a name, and checks that the server may listen on it.

    Raises EngineError; UnreachableError while the name can't be resolved.
    """
    ip = literal(name)
    ips = [ip] if ip else _looked_up(plain(name))
    shown = name if ip else f"{name} ({', '.join(map(str, ips))})"
    plain_ones = [ip for ip in ips if not (ip.is_unspecified or ip.is_multicast or getattr(ip, "scope_id", None))]
    if not plain_ones:
        what = "the server can't listen for agents on this address: on other machines it means another one, or none"
        raise EngineError(what, where=shown, fix="Give an address that those machines can reach.")
    private = [ip for ip in plain_ones if allow_public or not is_public(ip)]
    if not private:
        what = "this address is public, so the server would be exposed to the internet"
        fix = "Give an address of a private network, or start the server with --allow-public."
        raise EngineError(what, where=shown, fix=fix)
    if not ip and plain(name) != OF_THIS_MACHINE:
        private = _beyond_loopback(private, shown)
    return HostAddress(plain(name), tuple(map(str, private)))


def _beyond_loopback(ips: Sequence[IpAddress], shown: str) -> list[IpAddress]:
    """Returns the addresses that other machines can reach. Raises EngineError if there are none."""
    beyond = [ip for ip in ips if not ip.is_loopback]
    if not beyond:
        what = "on this machine, the name resolves only to a loopback address, which other machines can't reach"
        fix = "Remove the name from that line of /etc/hosts if DNS knows it, or give an IP address of this machine."
        raise EngineError(what, where=shown, fix=fix)
    return beyond


def not_listened(name: str, error: OSError | ValueError, fix: str = "") -> DrumbeatError:
    """Returns UnreachableError for an error that may pass by itself, else EngineError."""
    why = getattr(error, "strerror", None) or "the name has no address"
    what = f"the server can't listen for agents: {why}"
    if getattr(error, "errno", None) in _PASSING:
        return UnreachableError(f"{name}: {what}", fix=fix)
    return EngineError(what, where=name[:100], fix=fix)


def is_public(ip: IpAddress) -> bool:
    """Whether an address can be reached from the internet."""
    ip = getattr(ip, "ipv4_mapped", None) or ip
    is_own = ip.is_private or ip.is_loopback or ip.is_link_local
    return not is_own and not (ip.version == 4 and ip in CARRIERS)


def literal(name: str) -> IpAddress | None:
    """Parses an IP address; returns None for a name."""
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def _looked_up(name: str) -> list[IpAddress]:
    try:
        if not NAME.fullmatch(name):
            raise ValueError(name)
        addresses = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        return [ipaddress.ip_address(one) for one in dict.fromkeys(str(place[0]) for *_, place in addresses)]
    except (OSError, ValueError) as error:
        raise not_listened(name, error, "Give an IP address of this machine.") from None
