"""A way to a server that counts what is sent there, and holds it up when a test says so."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

_BLOCK = 1 << 16


class Relay:
    """Listens at `port` of this machine. sent: bytes that clients have sent so far.

    most: what is sent beyond so many waits, None = nothing does. bytes_s: of what the server answers, over each
    connection, None = as it comes.
    """

    def __init__(self, to: str) -> None:
        host, _, port = to.rpartition(":")
        self._to = (host, int(port))
        self.most: int | None = None
        self.bytes_s: float | None = None
        self.sent = 0
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._open: list[socket.socket] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._listen, daemon=True).start()

    def close(self) -> None:
        """Ends every connection."""
        self._over.set()
        for one in [self._listening, *self._open]:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _listen(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                try:
                    server = socket.create_connection(self._to)
                except OSError:
                    client.close()
                    continue
                self._open += [client, server]
                if self._over.is_set():  # `close` may not have seen these two.
                    client.close()
                    server.close()
                    return
                threading.Thread(target=self._pass, args=(client, server, True), daemon=True).start()
                threading.Thread(target=self._pass, args=(server, client, False), daemon=True).start()

    def _pass(self, source: socket.socket, to: socket.socket, is_asking: bool) -> None:
        with contextlib.suppress(OSError):
            while block := source.recv(_BLOCK):
                if is_asking:
                    self._hold(len(block))
                    to.sendall(block)
                else:
                    self._trickle(to, block)
        for one in (source, to):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _hold(self, size: int) -> None:
        while self.most is not None and self.sent + size > self.most and not self._over.is_set():
            time.sleep(0.02)
        with self._lock:
            self.sent += size

    def _trickle(self, to: socket.socket, block: bytes) -> None:
        rest = memoryview(block)
        while rest:
            rate = self.bytes_s
            if rate == 0 and not self._over.is_set():
                time.sleep(0.02)
                continue
            now = len(rest) if rate is None else max(1, int(rate / 20))
            to.sendall(rest[:now])
            rest = rest[now:]
            if rate:
                time.sleep(0.05)


@contextlib.contextmanager
def a_relay(url: str) -> Iterator[Relay]:
    """To the server of a plain `http` address."""
    relay = Relay(url.removeprefix("http://").partition("/")[0])
    try:
        yield relay
    finally:
        relay.close()
