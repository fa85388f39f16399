"""The ports that a node holds for a round, until the ranks that listen on them start."""

from __future__ import annotations

import socket


class HeldPort:
    """Holds a port for a rank to listen on: bound, not listening, with SO_REUSEADDR."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.bind(("", 0))
        # Only now: two sockets that both had the option before could be given the same free port.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.number: int = self._socket.getsockname()[1]

    def release(self) -> None:
        """Releases the port."""
        self._socket.close()
