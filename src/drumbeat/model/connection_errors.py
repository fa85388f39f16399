"""Connections that cannot be made: nothing is at the address, as against a host that is slow to answer."""

from __future__ import annotations

import errno
import socket

_REASONS = {
    errno.ECONNREFUSED: "connection refused",
    errno.EHOSTUNREACH: "no route to host",
    errno.ENETUNREACH: "network is unreachable",
}


def reason_for_no_connection(error: BaseException) -> str:
    """Returns why this error means that nothing is at the address; "" = it means something else."""
    if isinstance(error, socket.gaierror):
        return "its host name cannot be resolved"
    return _REASONS.get(error.errno or 0, "") if isinstance(error, OSError) else ""
