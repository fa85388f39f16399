"""Guards against server-side request forgery: the server calls only public web addresses and those of datastores.

Otherwise a request could have the server fetch data that only its own machine or network may see. The server connects
to the address that was checked, also after a redirect, so a name that resolves differently a moment later can't get
around the check.
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
FIX = "To allow it, create a datastore for it: drumbeat datastore create -f FILE (`type: http` and its `url`)."


def resolve(host: str, port: int) -> Sequence[str]:
    """Returns the IP addresses of a host, in the order in which to try them. Raises OSError."""
    return [str(one[4][0]) for one in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


def is_public(address: str) -> bool:
    """Whether an IP address is on the internet: not of this machine, its link, or a private network."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        ip = ip.ipv4_mapped or ip.sixtofour or _translated(ip) or ip
    return ip.is_global and not ip.is_multicast


def _translated(ip: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """Returns the IPv4 address behind a NAT64 gateway's address (RFC 6052)."""
    return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF) if ip in ipaddress.IPv6Network("64:ff9b::/96") else None


def named_places(datastores: Iterable[Datastore]) -> frozenset[Place]:
    """Returns the hosts and ports of datastores on the web."""
    urls = (_url(one) for one in datastores)
    return frozenset(place_of_url(url) for url in urls if url)


def _url(store: Datastore) -> str:
    if isinstance(store, HttpDatastore):
        return store.url
    return account_url(store) if isinstance(store, AzureBlobDatastore | DataLakeDatastore) else ""


def place_of_url(url: str) -> Place:
    """Returns host and port of a URL."""
    parts = urlsplit(url)
    return (parts.hostname or "").lower(), parts.port or _PORTS.get(parts.scheme, 0)


class AddressGuard:
    """Checks hosts before they are called. datastores: returns the current datastores, whose addresses are allowed."""

    def __init__(self, datastores: Callable[[], Mapping[str, Datastore]], resolver: Resolve = resolve) -> None:
        self._datastores, self._resolve = datastores, resolver

    def addresses(self, host: str, port: int) -> Sequence[str]:
        """Returns the IP addresses of a host that may be called. Raises OSError, ForbiddenError."""
        addresses = self._resolve(host, port)
        refused = next((one for one in addresses if not is_public(one)), None)
        if refused and (host.lower(), port) not in named_places(self._datastores().values()):
            is_literal = refused == host
            where = f"{host}:{port}" if is_literal else f"{host}:{port} ({refused})"
            what = "the server calls addresses of its own machine or of private networks only if a datastore has them"
            raise ForbiddenError(what, where=where, fix=FIX)
        return addresses

    def require_azure(self, url: str, title: str) -> None:
        """Raises ForbiddenError for an account that is neither at Microsoft nor of a datastore.

        Azure's library makes its own connections, so their addresses can't be checked.
        """
        host, port = place_of_url(url)
        if not host.endswith(_MICROSOFT) and (host, port) not in named_places(self._datastores().values()):
            what = f"the server calls Azure's API only at hosts of Microsoft and of datastores, not at {host}"
            raise ForbiddenError(what, where=title, fix="Create a datastore for it: drumbeat datastore create -f FILE")

    def transport(self, limits: httpx.Limits) -> httpx.HTTPTransport:
        """Returns a transport that connects to the addresses that were checked."""
        return _CheckedTransport(self, limits)

    def check_by_proxy(self, request: httpx.Request) -> None:
        """Checks a request through a proxy by this machine's resolution, though the proxy resolves the name itself."""
        try:
            self.addresses(*place_of_url(str(request.url)))
        except OSError:
            return


def goes_by_proxy(url: str) -> bool:
    """Whether the environment has a proxy for the address."""
    parts = urlsplit(url)
    return bool(getproxies().get(parts.scheme)) and not proxy_bypass(parts.hostname or "")


class _CheckedTransport(httpx.HTTPTransport):
    """httpx's transport with the connections of `_CheckedNetwork`."""

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
    """Connects to the checked addresses, one after the other. TLS still verifies the host's name."""

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
