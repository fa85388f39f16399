"""The ports that a node reserves for a round until the ranks that listen on them start."""

from __future__ import annotations

import socket

from drumbeat.launchers import more_ports
from drumbeat.model.agent import Enrolment


class RoundPorts:
    """Reserves the ports of one node's rounds."""

    def __init__(self, enrolment: Enrolment) -> None:
        self._count = 1 + more_ports(enrolment.plan, enrolment.node)
        self._sockets: list[socket.socket] = []

    def hold(self) -> list[int]:
        """Reserves as many ports as the launcher needs, at least one; returns their numbers. Raises OSError."""
        self._sockets = [_bound_socket() for _ in range(self._count)]
        return [each.getsockname()[1] for each in self._sockets]

    def release(self) -> None:
        """Releases the ports. Idempotent."""
        while self._sockets:
            self._sockets.pop().close()


def _bound_socket() -> socket.socket:
    """Returns a socket on a free port: bound, not listening, with SO_REUSEADDR, so that a rank can listen there."""
    held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    held.bind(("", 0))
    # Set after bind: two sockets with the option could otherwise get the same free port.
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return held
