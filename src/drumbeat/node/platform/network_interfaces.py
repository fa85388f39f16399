"""The interfaces of this node as the kernel reports them (rtnetlink(7)); /sys may show another network namespace."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from drumbeat.launchers import network_variables
from drumbeat.model.errors import RefusedError

_GET_ADDRESSES, _NEW_ADDRESS, _ERROR, _DONE = 22, 20, 2, 3
_REQUEST_ALL = 0x301
_ADDRESS, _LOCAL = 1, 2
_HEADER, _OF_ADDRESS, _ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=BBBBI"), struct.Struct("=HH")
_INFINIBAND = "/sys/class/infiniband"


@dataclass(frozen=True)
class Interface:
    """An address of this node, and the interface that has it."""

    name: str
    address: str
    prefix: int

    @property
    def subnet(self) -> str:
        """`10.1.0.0/24`."""
        return str(ipaddress.ip_interface(f"{self.address}/{self.prefix}").network)

    def __str__(self) -> str:
        return f"{self.name} ({self.address}/{self.prefix})"


# --- listing ---------------------------------------------------------------------------------------------------
def interfaces() -> list[Interface]:
    """Every address of this node, IPv4 first. Raises OSError."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0) as line:
        request = _OF_ADDRESS.pack(socket.AF_UNSPEC, 0, 0, 0, 0)
        line.send(_HEADER.pack(_HEADER.size + len(request), _GET_ADDRESSES, _REQUEST_ALL, 1, 0) + request)
        listing: list[Interface] = []
        while True:
            for kind, body in _messages(line.recv(1 << 16)):
                if kind in (_DONE, _ERROR):
                    return sorted(listing, key=lambda one: ":" in one.address)
                if kind == _NEW_ADDRESS:
                    listing += _interface(body)


def _messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    while data:
        length, kind, *_ = _HEADER.unpack_from(data)
        yield kind, data[_HEADER.size : length]
        data = data[(length + 3) & ~3 :]


def _interface(body: bytes) -> Iterator[Interface]:
    family, prefix, _, _, index = _OF_ADDRESS.unpack_from(body)
    attributes, rest = dict[int, bytes](), body[_OF_ADDRESS.size :]
    while len(rest) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(rest)
        attributes[kind] = rest[_ATTRIBUTE.size : length]
        rest = rest[(length + 3) & ~3 :]
    address = attributes.get(_LOCAL) or attributes.get(_ADDRESS)
    if address and family in (socket.AF_INET, socket.AF_INET6):
        with contextlib.suppress(OSError):  # It vanished meanwhile.
            yield Interface(socket.if_indextoname(index), socket.inet_ntop(family, address), prefix)


def infiniband(folder: str = _INFINIBAND) -> tuple[str, ...]:
    """Names of the InfiniBand (and RoCE) devices, which belong to the machine, not to a network namespace."""
    with contextlib.suppress(OSError):
        return tuple(sorted(os.listdir(folder)))
    return ()


# --- selection -------------------------------------------------------------------------------------------------
def find(wanted: str, address: str, interfaces_here: Sequence[Interface]) -> Interface | None:
    """The interface that a plan's `network` names, else the one with the address; None = none."""
    place = network_variables.place(wanted)
    if place:
        return next((one for one in interfaces_here if _is_meant(place, one)), None)
    return next((one for one in interfaces_here if one.address == address), None)


def require(wanted: str, interfaces_here: Sequence[Interface]) -> None:
    """Raises RefusedError, with the interfaces that exist, when this node lacks the plan's `network`."""
    place = network_variables.place(wanted)
    if place and find(wanted, "", interfaces_here) is None:
        has = ", ".join(map(str, interfaces_here)) or "none"
        what = f"this node ({socket.gethostname()}) has no interface {place}; it has {has}"
        fix = "Set one that every node has, or a subnet of all nodes; or omit it, and it is detected."
        raise RefusedError(what, where="drumbeat.network", fix=fix)


def route(host: str, port: int = 9) -> str:
    """The address of this node from which the kernel would send to the host (nothing is sent). Raises OSError.

    For a name with several addresses, the first one that isn't reached by loopback counts.
    """
    addresses: list[str] = []
    trouble: OSError | None = None
    for family, kind, _, _, place in socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM):
        try:
            with socket.socket(family, kind) as probe:
                probe.connect(place)
                addresses.append(probe.getsockname()[0])
        except OSError as error:
            trouble = error
    beyond = [one for one in addresses if not ipaddress.ip_address(one.partition("%")[0]).is_loopback]
    if not addresses and trouble is not None:
        raise trouble
    return next(iter([*beyond, *addresses]))


def towards(hosts: Sequence[str], interfaces_here: Sequence[Interface]) -> Interface | None:
    """The interface with the route to the first reachable host."""
    for host in hosts:
        with contextlib.suppress(OSError):
            if interface := find("", route(host), interfaces_here):
                return interface
    return None


def _is_meant(place: str, one: Interface) -> bool:
    if place in (one.name, one.address):
        return True
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(one.address) in ipaddress.ip_network(place, strict=False)
    return False
