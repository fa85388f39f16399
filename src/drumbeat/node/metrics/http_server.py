"""The HTTP of a node's metrics endpoint: `http://127.0.0.1:PORT/<token>/<rank>/…`, connections kept open."""

from __future__ import annotations

import hmac
import io
import re
import shutil
import socket
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from typing import Any, BinaryIO

from drumbeat.model.mlflow_calls import MlflowRefusal, invalid
from drumbeat.node.metrics.endpoint import ARTIFACTS, MetricsEndpoint
from drumbeat.node.metrics.http_messages import HttpAnswer, Read, json_answer
from drumbeat.node.platform.http_listener import Listener

MAX_BODY = 64 << 20
"""The maximum bytes of a request that is read into memory; artifacts of the node's own runs may be longer."""
_IDLE_S = 600.0
_PATH = re.compile(r"/([^/]+)/(\d{1,9})(/.*)?", re.ASCII)
_PIECE = 1 << 20


class MetricsServer(Listener):
    """Answers at a listening socket, for one attempt after the other."""

    endpoint: MetricsEndpoint
    token: str
    """The part of the address that authorizes clients."""

    def __init__(self, listener: socket.socket) -> None:
        super().__init__(listener.getsockname(), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self._is_serving = False

    def serve(self, endpoint: MetricsEndpoint, token: str) -> None:
        """Answers for this attempt from now on; the address of the one before is no longer valid."""
        self.endpoint, self.token = endpoint, token
        if not self._is_serving:
            self._is_serving = True
            self.begin("metrics")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16
    timeout = _IDLE_S
    server: MetricsServer  # pyright: ignore[reportIncompatibleVariableOverride] (this handler is started by no other)

    def do_GET(self) -> None:
        """Answers one request; a refused one with unread content closes its connection."""
        body = _body(self.headers, self.rfile)
        try:
            read = self._read()
            if _is_artifacts(read.path):
                self._artifact(read, body)
            else:
                self._send(self.server.endpoint.answer(replace(read, body=_read_all(body))))
        except MlflowRefusal as error:
            self.close_connection = self.close_connection or bool(body.read(1))
            self._send(json_answer(error.body, error.status))

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815 (http.server's names)

    def _read(self) -> Read:
        """Returns the request without its body. Raises MlflowRefusal unless it has the token."""
        parts = _PATH.fullmatch(self.path)
        if parts is None or not hmac.compare_digest(parts[1].encode(), self.server.token.encode()):
            raise MlflowRefusal("UNAUTHENTICATED", "The address has no valid token: use MLFLOW_TRACKING_URI as it is.")
        kind = self.headers.get("Content-Type", "application/json")
        return Read(self.command, parts[3] or "/", b"", kind, int(parts[2]))

    def _artifact(self, read: Read, body: BinaryIO) -> None:
        endpoint = self.server.endpoint
        if read.method == "PUT":
            self._send(endpoint.put_artifact(read, body))
        elif read.method == "DELETE":
            self._send(endpoint.remove_artifact(read))
        elif read.path.partition("?")[0].rstrip("/") == ARTIFACTS:
            self._send(endpoint.list_folder(read))
        else:
            artifact = endpoint.artifact(read)
            if isinstance(artifact, HttpAnswer):
                self._send(artifact)
            else:
                self._send_file(*artifact)

    def _send(self, answer: HttpAnswer) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    def _send_file(self, file: BinaryIO, size: int, kind: str) -> None:
        with file:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(size))
            self.end_headers()
            shutil.copyfileobj(file, self.wfile, _PIECE)

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing: ranks call very often."""


def _is_artifacts(path: str) -> bool:
    plain = path.partition("?")[0]
    return plain == ARTIFACTS or plain.startswith(f"{ARTIFACTS}/")


def _read_all(body: BinaryIO) -> bytes:
    data = body.read(MAX_BODY + 1)
    if len(data) > MAX_BODY:
        raise invalid(f"A request can have at most {MAX_BODY >> 20} MiB.")
    return data


def _body(headers: Any, file: Any) -> BinaryIO:
    is_chunked = "chunked" in headers.get("Transfer-Encoding", "").lower()
    size = headers.get("Content-Length", "0")
    return io.BufferedReader(_Chunked(file) if is_chunked else _Sized(file, int(size) if size.isdecimal() else 0))


class _Sized(io.RawIOBase):
    """A body of known length. Raises ConnectionError if it ends early."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self._left = file, size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._file.read(min(len(buffer), self._left))
        if not data and self._left:
            raise ConnectionError("the client ended its request early")
        self._left -= len(data)
        buffer[: len(data)] = data
        return len(data)


class _Chunked(io.RawIOBase):
    """A body in chunks (RFC 9112, section 7.1)."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._left, self._is_over = file, 0, False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._left and not self._is_over:
            self._begin_chunk()
        data = self._file.read(min(len(buffer), self._left))
        if not data and self._left:
            raise ConnectionError("the client ended its request early")
        self._left -= len(data)
        if data and not self._left:
            self._file.readline()
        buffer[: len(data)] = data
        return len(data)

    def _begin_chunk(self) -> None:
        line = self._file.readline(64)
        try:
            self._left = int(line.partition(b";")[0], 16)
        except ValueError:
            raise ConnectionError("the client sent a chunk without a size") from None
        if not self._left:
            self._is_over = True
            while self._file.readline(1024).strip():
                pass
