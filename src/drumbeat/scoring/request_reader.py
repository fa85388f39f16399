"""Reads HTTP/1.1 requests strictly: what two servers could read differently is refused (RFC 9112)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from drumbeat.scoring.messages import ScoringRequest

MAX_HEAD_BYTES = 64 << 10
MAX_BODY_BYTES = 100 << 20
"""The router has a limit of its own, which is lower."""
_MAX_CHUNK_LINE = 1024
_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_REQUEST_LINE = re.compile(rb"(" + _TOKEN + rb") ([\x21-\x7e\x80-\xff]+) HTTP/1\.([01])")
_HEADER = re.compile(rb"(" + _TOKEN + rb"):[ \t]*([^\r\n\0]*)")
_DIGITS = re.compile(rb"[0-9]{1,15}")
_CHUNK = re.compile(rb"([0-9a-fA-F]{1,8})(?:[ \t]*;[^\r\n]*)?")


class MalformedRequestError(Exception):
    """A request can't be read. The connection ends after the answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


class RequestReader:
    """Turns the bytes of a connection into requests. Raises MalformedRequestError."""

    def __init__(self, max_body_bytes: int = MAX_BODY_BYTES) -> None:
        self._buffer = bytearray()
        self._max_body = max_body_bytes
        self._head: ScoringRequest | None = None
        self._length = 0
        self._is_chunked = False
        self._body = bytearray()
        self.awaits_continue = False
        """Whether the client waits for `100 Continue` before it sends the body."""

    def feed(self, data: bytes) -> None:
        """Adds what the connection has received."""
        self._buffer += data

    def requests(self) -> Iterator[ScoringRequest]:
        """The requests that are complete."""
        while (request := self._next()) is not None:
            yield request

    @property
    def has_begun(self) -> bool:
        """Whether a part of a request has come."""
        return self._head is not None or bool(self._buffer)

    def _next(self) -> ScoringRequest | None:
        if self._head is None and not self._read_head():
            return None
        head = self._head
        if head is None or not (self._read_chunks() if self._is_chunked else self._read_length()):
            return None
        head.body, self._head, self._body = bytes(self._body), None, bytearray()
        return head

    def _read_head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > MAX_HEAD_BYTES:
                raise MalformedRequestError(431, f"The head of a request has at most {MAX_HEAD_BYTES} bytes.")
            return False
        if end > MAX_HEAD_BYTES:
            raise MalformedRequestError(431, f"The head of a request has at most {MAX_HEAD_BYTES} bytes.")
        lines = bytes(self._buffer[:end]).split(b"\r\n")
        del self._buffer[: end + 4]
        self._head = self._parse(lines)
        return True

    def _parse(self, lines: list[bytes]) -> ScoringRequest:
        first = _REQUEST_LINE.fullmatch(lines[0])
        if first is None:
            raise MalformedRequestError(400, "The request line is malformed.")
        headers: dict[str, str] = {}
        raw: list[tuple[bytes, bytes]] = []
        for line in lines[1:]:
            match = _HEADER.fullmatch(line)
            if match is None:
                raise MalformedRequestError(400, "A header is malformed.")
            value = match[2].rstrip(b" \t")
            raw.append((match[1], value))
            name, text = match[1].lower().decode("ascii"), value.decode("latin-1")
            if name in headers:
                if name in {"content-length", "transfer-encoding", "host"}:
                    raise MalformedRequestError(400, f"The header {name} stands more than once.")
                text = f"{headers[name]},{text}"
            headers[name] = text
        is_old = first[3] == b"0"
        self._set_framing(headers)
        connection = headers.get("connection", "").lower()
        keeps = "keep-alive" in connection if is_old else "close" not in connection
        self.awaits_continue = not is_old and headers.get("expect", "").lower() == "100-continue"
        method, target = first[1].decode("ascii"), first[2].decode("latin-1")
        return ScoringRequest(method, target, headers, b"", is_old, keeps, raw)

    def _set_framing(self, headers: dict[str, str]) -> None:
        coding, length = headers.get("transfer-encoding"), headers.get("content-length")
        self._is_chunked = coding is not None
        self._length = 0
        if coding is not None:
            if length is not None or coding.lower() != "chunked":
                raise MalformedRequestError(400, "Transfer-Encoding may be chunked, without a Content-Length.")
        elif length is not None:
            if not _DIGITS.fullmatch(length.encode("latin-1")):
                raise MalformedRequestError(400, "Content-Length isn't a number.")
            self._length = int(length)
            self._check_size(self._length)

    def _check_size(self, size: int) -> None:
        if size > self._max_body:
            raise MalformedRequestError(413, f"The body of a request has at most {self._max_body} bytes.")

    def _read_length(self) -> bool:
        if len(self._buffer) < self._length:
            return False
        self._body = self._buffer[: self._length]
        del self._buffer[: self._length]
        return True

    def _read_chunks(self) -> bool:
        while True:
            end = self._buffer.find(b"\r\n")
            if end < 0:
                if len(self._buffer) > _MAX_CHUNK_LINE:
                    raise MalformedRequestError(400, "A chunk of the body is malformed.")
                return False
            match = _CHUNK.fullmatch(bytes(self._buffer[:end]))
            if match is None:
                raise MalformedRequestError(400, "A chunk of the body is malformed.")
            size = int(match[1], 16)
            if size == 0:
                return self._read_trailers(end)
            self._check_size(len(self._body) + size)
            if len(self._buffer) < end + 2 + size + 2:
                return False
            if not self._buffer.startswith(b"\r\n", end + 2 + size):
                raise MalformedRequestError(400, "A chunk of the body is malformed.")
            self._body += self._buffer[end + 2 : end + 2 + size]
            del self._buffer[: end + 4 + size]

    def _read_trailers(self, end: int) -> bool:
        """Drops the trailers, which nothing here uses."""
        if self._buffer.startswith(b"\r\n", end + 2):
            del self._buffer[: end + 4]
            return True
        last = self._buffer.find(b"\r\n\r\n", end)
        if last < 0:
            if len(self._buffer) > MAX_HEAD_BYTES:
                raise MalformedRequestError(431, "The trailers of the body are too long.")
            return False
        del self._buffer[: last + 4]
        return True
