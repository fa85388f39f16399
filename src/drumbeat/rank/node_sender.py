"""What a rank's process sends to the metrics endpoint of its node."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from drumbeat.rank.endpoint_connection import EndpointConnection

_TIMEOUT_S = 30.0
_FIRST_PAUSE_S, _MAX_PAUSE_S = 0.1, 2.0


class NodeSender:
    """Sends bodies to the endpoint, by a new connection where the last one broke."""

    def __init__(self, address: str, connection: type[EndpointConnection]) -> None:
        place, _, path = address.removeprefix("http://").partition("/")
        host, _, port = place.rpartition(":")
        self._host, self._port, self._path, self._connection = host.strip("[]"), int(port), f"/{path}", connection
        self._line: EndpointConnection | None = None

    def send(self, body: dict[str, Any], *, within_s: float | None = None) -> None:
        """Sends numbers as `post` does."""
        self.post("/log", json.dumps(body, separators=(",", ":")).encode(), within_s=within_s)

    def post(self, path: str, body: bytes, *, within_s: float | None = None) -> None:
        """Sends a body until it is answered: a killed endpoint is restarted.

        within_s: the body is sent once, and a timeout raises ConnectionError.
        """
        pause_s = _FIRST_PAUSE_S
        while True:
            status, answer = self._try(path, body, _TIMEOUT_S if within_s is None else within_s)
            if status == 200:
                for sentence in json.loads(answer or "{}").get("refused", ()):
                    warn(sentence)
                return
            if 400 <= status < 500:
                warn(f"the node refuses metrics: {answer[:500]}")
                return
            if within_s is not None:
                raise ConnectionError("the node doesn't answer")
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _MAX_PAUSE_S)

    def _try(self, path: str, body: bytes, timeout_s: float) -> tuple[int, str]:
        """Returns status and answer; status 0 = no answer."""
        try:
            if not timeout_s:
                return 0, ""
            self._line = self._line or self._connection(self._host, self._port, timeout_s)
            status, answer = self._line.post(self._path + path, body, timeout_s)
            return status, answer.decode(errors="replace")
        except (OSError, ValueError):
            self.close()
            return 0, ""

    def close(self) -> None:
        """Closes the connection; the next body opens another."""
        if self._line is not None:
            self._line.close()
        self._line = None


def warn(message: str) -> None:
    """Prints a message of `drumbeat.log` to the rank's own log."""
    print(f"drumbeat.log: {message}", file=sys.stderr, flush=True)  # noqa: T201 (a rank's own log)
