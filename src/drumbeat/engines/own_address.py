"""The address at which machines of a cluster reach this machine, and so the server."""

from __future__ import annotations

import socket


def route_to(host: str, port: int) -> str:
    """The address of this machine on the kernel's route to a host, "" without a route. Nothing is sent."""
    try:
        family, kind, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(place)
            return str(probe.getsockname()[0])
    except OSError:
        return ""
