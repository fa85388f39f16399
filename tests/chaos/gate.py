"""A way to a store that a test closes, or makes slow."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

_SLOW = 4096
"""Bytes that go through at once when it is slow, and then a pause."""
_PAUSE_S = 0.02


class Gate:
    """Listens at `port`. mode: `open`; `closed`: who comes is sent away, and who is there as well; `slow`."""

    def __init__(self, to: tuple[str, int]) -> None:
        self.mode, self._to = "open", to
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._listen, daemon=True).start()

    def close(self) -> None:
        self.mode = "closed"
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _listen(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                if self.mode == "closed":
                    client.close()
                    continue
                try:
                    server = socket.create_connection(self._to)
                except OSError:
                    client.close()
                    continue
                for pair in ((client, server), (server, client)):
                    threading.Thread(target=self._pass, args=pair, daemon=True).start()

    def _pass(self, source: socket.socket, to: socket.socket) -> None:
        with contextlib.suppress(OSError), source, to:
            while self.mode != "closed" and (block := source.recv(_SLOW)):
                if self.mode == "slow":
                    time.sleep(_PAUSE_S)
                to.sendall(block)
            for one in (source, to):
                one.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def a_gate(url: str) -> Iterator[Gate]:
    """Before the server of a plain `http` address."""
    host, _, port = url.removeprefix("http://").partition("/")[0].rpartition(":")
    gate = Gate((host, int(port)))
    try:
        yield gate
    finally:
        gate.close()
