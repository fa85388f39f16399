"""HTTP served by a process of a node, in threads beside its work."""

from __future__ import annotations

import threading
from http.server import ThreadingHTTPServer
from typing import Any


class Listener(ThreadingHTTPServer):
    """A server that listens once created, and answers from `begin` to `end`."""

    daemon_threads = True
    request_queue_size = 64

    def begin(self, name: str) -> None:
        """Starts to answer, in a thread of this name."""
        threading.Thread(target=self.serve_forever, name=name, daemon=True).start()

    def end(self) -> None:
        """Stops listening."""
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores clients that went away; they can ask again."""
