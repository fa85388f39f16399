"""The ports that a node reserves for a round until the ranks that listen on them start."""

from __future__ import annotations

import socket


class HeldPort:
    """Reserves a port for a rank: bound, not listening, with SO_REUSEADDR."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.bind(("", 0))
        # Set after bind: two sockets with the option could otherwise get the same free port.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.number: int = self._socket.getsockname()[1]

    def release(self) -> None:
        """Releases the port."""
        self._socket.close()
