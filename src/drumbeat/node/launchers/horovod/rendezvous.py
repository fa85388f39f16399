"""A store for Horovod's ranks: `python -I -m drumbeat.node.launchers.horovod.rendezvous ADDRESS PORT COMMAND…`.

The store listens before the command begins, in a separate process, which the supervisor ends with the rank's other
processes. Its protocol is that of Horovod's own store (horovod/runner/http): PUT, GET and DELETE of `/scope/key`. Like
Horovod's own store, it has no access control: Horovod's requests have no place for a secret.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NoReturn

MAX_VALUE_BYTES = 1 << 20
"""The maximum size of a value, which is normally an address."""
READ_S = 10.0


class RendezvousServer(ThreadingHTTPServer):
    """The rendezvous of Horovod's ranks: an HTTP server that keeps values by path."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 1024  # All ranks connect at once.

    def __init__(self, address: str, port: int) -> None:
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.values: dict[str, bytes] = {}
        self.lock = threading.Lock()
        super().__init__((address, port), Request)

    def server_bind(self) -> None:
        """Binds without the DNS lookup of this machine's name that HTTPServer makes."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])


class Request(BaseHTTPRequestHandler):
    """A request of one rank."""

    timeout = READ_S
    server: RendezvousServer  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_GET(self) -> None:
        with self.server.lock:
            value = self.server.values.get(self.path)
        self._answer(404 if value is None else 200, value or b"")

    def do_PUT(self) -> None:
        size = self.headers.get("Content-Length", "")
        if not size.isascii() or not size.isdigit() or int(size) > MAX_VALUE_BYTES:
            self._answer(400)
            return
        value = self.rfile.read(int(size))
        with self.server.lock:
            self.server.values[self.path] = value
        self._answer(200)

    def do_DELETE(self) -> None:
        # A rank deletes its value when all ranks of the scope have met; then no rank needs it.
        with self.server.lock:
            self.server.values.pop(self.path, None)
        self._answer(200)

    def _answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Logs nothing: the output is the rank's log."""


def main() -> int:
    """Starts the store and becomes the command; returns 127 if it can't."""
    address, port, *command = sys.argv[1:]
    try:
        store = RendezvousServer(address, int(port))
        is_store = os.fork() == 0
    except OSError as error:
        where = f"{address}:{port}"
        print(f"drumbeat: Horovod's ranks can't meet at {where}: {error.strerror or error}", file=sys.stderr)  # noqa: T201
        return 127
    if is_store:
        _let_go(store.fileno())
        store.serve_forever()
    store.server_close()
    return _become(command)


def _let_go(kept: int) -> None:
    """Closes the command's open files: readers of pipes must see the command's end, not the store's."""
    os.closerange(3, kept)
    os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))


def _become(command: list[str]) -> NoReturn:
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these signals, and a command would inherit that.
        signal.signal(number, signal.SIG_DFL)
    os.execvpe(command[0], command, os.environ)


if __name__ == "__main__":
    sys.exit(main())
