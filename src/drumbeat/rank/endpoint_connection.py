"""One connection to the node's metrics endpoint.

The standard HTTP client would do, but its import costs a rank 20 ms of CPU (TLS, mail headers), more than the start of
a trial that does little. The endpoint is drumbeat's own (`drumbeat.node.metrics.http_server`), and states the length of
each answer.
"""

from __future__ import annotations

import socket

_MAX_LINE = 1 << 16
"""The longest line of an answer's head in bytes."""


class EndpointConnection:
    """A connection that stays open between requests. Raises OSError if the endpoint is not there."""

    def __init__(self, host: str, port: int, timeout_s: float) -> None:
        self._socket = socket.create_connection((host, port), timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = self._socket.makefile("rb")
        self._host = f"{host}:{port}"

    def post(self, path: str, body: bytes, timeout_s: float) -> tuple[int, bytes]:
        """Sends JSON and returns the answer's status and body.

        timeout_s: for each wait. Raises OSError if the connection breaks or the answer isn't HTTP.
        """
        self._socket.settimeout(timeout_s)
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {self._host}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._socket.sendall(head.encode("ascii") + body)
        status = self._status(self._line())
        length = 0
        while line := self._line():
            name, _, value = line.partition(":")
            if name.lower() == "content-length":
                length = int(value)
        answer = self._reader.read(length)
        if len(answer) < length:
            raise ConnectionError("the endpoint's answer was cut off")
        return status, answer

    def close(self) -> None:
        """Closes the connection."""
        self._reader.close()
        self._socket.close()

    def _line(self) -> str:
        line = self._reader.readline(_MAX_LINE)
        if not line.endswith(b"\n"):
            raise ConnectionError("the endpoint's answer was cut off")
        return line.decode("latin-1").rstrip("\r\n")

    def _status(self, line: str) -> int:
        version, _, rest = line.partition(" ")
        if not version.startswith("HTTP/1.") or not rest[:3].isdecimal():
            raise ConnectionError("the endpoint's answer is not HTTP")
        return int(rest[:3])
