"""Which web addresses the server may call for a request that names them: public ones, and those that a datastore names.

Others could have the server fetch what only its own machine or network is meant to see. The address that a connection
is made to is the one that was checked, also after a redirect, so a name that resolves differently a moment later gains
nothing.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpcore
import httpx

from drumbeat.jobfile.data.datastores import (
    AzureBlobDatastore,
    DataLakeDatastore,
    Datastore,
    HttpDatastore,
    account_url,
)
from drumbeat.model.errors import ForbiddenError

Place = tuple[str, int]
"""Host and port."""
Resolve = Callable[[str, int], Sequence[str]]
"""Returns the IP addresses of a host. Raises OSError."""

_MICROSOFT = (".core.windows.net", ".core.chinacloudapi.cn", ".core.usgovcloudapi.net")
_PORTS = {"http": 80, "https": 443}
FIX = "If it is meant, make a datastore of it: drumbeat datastore create -f FILE (`type: http` and its `url`)."


def resolve(host: str, port: int) -> Sequence[str]:
    """Returns the IP addresses of a host, in the order in which they are to be tried. Raises OSError."""
    return [str(one[4][0]) for one in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


def is_public(address: str) -> bool:
    """Whether an IP address is one of the internet: not of this machine, its link, or a private network."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        ip = ip.ipv4_mapped or ip.sixtofour or _translated(ip) or ip
    return ip.is_global and not ip.is_multicast


def _translated(ip: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that a gateway of NAT64 leads to (RFC 6052)."""
    return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF) if ip in ipaddress.IPv6Network("64:ff9b::/96") else None


def named_places(datastores: Iterable[Datastore]) -> frozenset[Place]:
    """Returns the hosts and ports of datastores that are addresses of the web."""
    urls = (_url(one) for one in datastores)
    return frozenset(place_of_url(url) for url in urls if url)


def _url(store: Datastore) -> str:
    if isinstance(store, HttpDatastore):
        return store.url
    return account_url(store) if isinstance(store, AzureBlobDatastore | DataLakeDatastore) else ""


def place_of_url(url: str) -> Place:
    """Returns host and port of an address."""
    parts = urlsplit(url)
    return (parts.hostname or "").lower(), parts.port or _PORTS.get(parts.scheme, 0)


class AddressGuard:
    """Checks hosts before they are called. datastores: those whose addresses are let pass, as they are now."""

    def __init__(self, datastores: Callable[[], Mapping[str, Datastore]], resolver: Resolve = resolve) -> None:
        self._datastores, self._resolve = datastores, resolver

    def addresses(self, host: str, port: int) -> Sequence[str]:
        """Returns the IP addresses of a host that may be called. Raises OSError, ForbiddenError."""
        addresses = self._resolve(host, port)
        refused = next((one for one in addresses if not is_public(one)), None)
        if refused and (host.lower(), port) not in named_places(self._datastores().values()):
            is_literal = refused == host
            where = f"{host}:{port}" if is_literal else f"{host}:{port} ({refused})"
            what = "the server doesn't call addresses of its own machine or of private networks that no datastore names"
            raise ForbiddenError(what, where=where, fix=FIX)
        return addresses

    def require_azure(self, url: str, title: str) -> None:
        """Raises ForbiddenError for an account that is neither with Microsoft nor of a datastore.

        Azure's library makes its connections itself, to wherever a name leads.
        """
        host, port = place_of_url(url)
        if not host.endswith(_MICROSOFT) and (host, port) not in named_places(self._datastores().values()):
            what = f"the server speaks Azure's protocol with hosts of Microsoft's and of datastores, not with {host}"
            raise ForbiddenError(what, where=title, fix="Make a datastore of it: drumbeat datastore create -f FILE")

    def transport(self, limits: httpx.Limits) -> httpx.HTTPTransport:
        """Returns what connects a client to the addresses that were checked."""
        return _CheckedTransport(self, limits)

    def check_by_proxy(self, request: httpx.Request) -> None:
        """Checks a request that goes by a proxy, which resolves the name itself, as far as this machine knows it."""
        try:
            self.addresses(*place_of_url(str(request.url)))
        except OSError:
            return


def goes_by_proxy(url: str) -> bool:
    """Whether the environment has a proxy for the address."""
    parts = urlsplit(url)
    return bool(getproxies().get(parts.scheme)) and not proxy_bypass(parts.hostname or "")


class _CheckedTransport(httpx.HTTPTransport):
    """httpx's, whose connections are made by `_CheckedNetwork`."""

    def __init__(self, guard: AddressGuard, limits: httpx.Limits) -> None:
        super().__init__(limits=limits)
        self._pool = httpcore.ConnectionPool(
            ssl_context=httpx.create_ssl_context(),
            max_connections=limits.max_connections,
            max_keepalive_connections=limits.max_keepalive_connections,
            keepalive_expiry=limits.keepalive_expiry,
            network_backend=_CheckedNetwork(guard),
        )


class _CheckedNetwork(httpcore.SyncBackend):
    """Connects to the addresses that were checked, one after the other; TLS still checks the host's name."""

    def __init__(self, guard: AddressGuard) -> None:
        self._guard = guard

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        try:
            addresses = self._guard.addresses(host, port)
        except OSError as error:
            raise httpcore.ConnectError(str(error)) from error
        trouble: Exception = httpcore.ConnectError(f"{host} has no address")
        for address in addresses:
            try:
                return super().connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                trouble = error
        raise trouble
