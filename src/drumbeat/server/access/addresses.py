"""Addresses of this machine at which agents on others may be listened for."""

from __future__ import annotations

import errno
import ipaddress
import re
import socket
from dataclasses import dataclass

from drumbeat.protocol.errors import DrumbeatError, EngineError, UnreachableError

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII | re.IGNORECASE)
QUEUE = 1024
CARRIERS = ipaddress.ip_network("100.64.0.0/10")
"""Addresses behind a provider's translation (RFC 6598), which overlay networks use as well."""
_PASSING = (
    errno.EADDRNOTAVAIL, errno.EADDRINUSE, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS,
    socket.EAI_AGAIN, socket.EAI_MEMORY,
)  # fmt: skip
"""An interface that isn't up yet, a name server that doesn't answer; no port, file or memory is left."""


@dataclass(frozen=True)
class HostAddress:
    """Where to listen. name: as agents call it. ip: what it stands for."""

    name: str
    ip: str

    @property
    def family(self) -> socket.AddressFamily:
        """IPv4 or IPv6."""
        return socket.AF_INET6 if ":" in self.ip else socket.AF_INET

    @property
    def host(self) -> str:
        """As it stands in a URL and in a `Host` header."""
        return f"[{self.name}]" if ":" in self.name else self.name

    def listener(self, port: int) -> socket.socket:
        """Listens there; 0 = at a free port. Raises OSError."""
        found = socket.create_server((self.ip, port), family=self.family, backlog=QUEUE)
        found.setblocking(False)
        return found

    def require_here(self) -> None:
        """Raises UnreachableError, EngineError unless it is this machine's now."""
        try:
            with socket.socket(self.family, socket.SOCK_DGRAM) as probe:
                probe.bind((self.ip, 0))
        except OSError as error:
            fix = "See with `ip addr` which addresses this machine has."
            raise not_listened(self.name, error, fix) from None


def plain(name: str) -> str:
    """The one way to write an address."""
    return str(_literal(name) or name.lower())


def address_of(name: str, *, allow_public: bool) -> HostAddress:
    """An IP address, or a name that stands for one, if it may be listened at.

    Raises EngineError; UnreachableError where nobody can tell what the name stands for now.
    """
    ip = _literal(name) or _looked_up(name)
    if ip.is_unspecified or ip.is_multicast or getattr(ip, "scope_id", None):
        what = "agents can't be listened for at this address: on other machines it means another one, or none"
        raise EngineError(what, where=name, fix="Name one address that those machines reach.")
    if is_public(ip) and not allow_public:
        what = "this address is public: anybody on the internet could try to speak to the server"
        fix = "Name one of a private network, or start the server with --allow-public if that is meant."
        raise EngineError(what, where=name, fix=fix)
    return HostAddress(plain(name), str(ip))


def not_listened(name: str, error: OSError | ValueError, fix: str = "") -> DrumbeatError:
    """UnreachableError, of no machine, where it may pass by itself; EngineError where somebody has to do something."""
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


def _literal(name: str) -> IpAddress | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def _looked_up(name: str) -> IpAddress:
    try:
        if not NAME.fullmatch(name):
            raise ValueError(name)
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        return ipaddress.ip_address(str(found[0][4][0]))
    except (OSError, ValueError) as error:
        raise not_listened(name, error, "Name an IP address of this machine.") from None
