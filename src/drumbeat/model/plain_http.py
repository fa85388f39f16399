"""Very many small requests to one web server, over a few kept connections that one thread uses in turns.

http.client takes 0.2 ms of a processor for a request, most of it for headers that are never read. This reads plain
answers alone: a status of 200 with a length. What is moved, refused, chunked, cut or late is left to another client.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

T = TypeVar("T")

CONNECTIONS = 4
"""How many requests of one thread are under way: the server works on the next ones while an answer is read."""
ANSWER_S = 5.0
"""How long an answer may stay silent before the request is left to a more patient client."""
_BLOCK = 1 << 16
_MAX_HEAD = 1 << 16


@dataclass(frozen=True)
class PlainAnswer:
    """An answer with status 200. body: b"" for a HEAD."""

    head: bytes
    length: int
    body: bytes | bytearray = b""

    def header(self, name: str) -> str:
        """A header's value, "" = it has none."""
        return _value(self.head, self.head.lower(), name.lower().encode())


class UnusualAnswerError(Exception):
    """An answer that isn't plain, or none at all."""


class PlainRequests:
    """One thread's connections to the server of an address. tls: makes what checks its certificate.

    limit: how many requests are under way at a time.
    """

    def __init__(
        self, url: str, tls: Callable[[], ssl.SSLContext], timeout_s: float = ANSWER_S, limit: int = CONNECTIONS
    ) -> None:
        parts = urlsplit(url)
        self._scheme, self._host = parts.scheme, parts.netloc.rpartition("@")[2]
        self._tls, self._timeout_s, self._limit = tls, timeout_s, limit
        self._idle: list[_Connection] = []
        self._is_off = False
        self._context: ssl.SSLContext | None = None

    def close(self) -> None:
        """Ends its connections."""
        while self._idle:
            self._idle.pop().close()

    def request(self, method: str, target: str, headers: Mapping[str, str]) -> bytes:
        """Returns a request as it is sent. Raises ValueError for what no request can have."""
        lines = [f"{method} {target} HTTP/1.1", f"Host: {self._host}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if any(mark in line for line in lines for mark in ("\r", "\n")) or " " in target:
            raise ValueError("a line end in a header, or a space in an address")
        return "\r\n".join([*lines, "", ""]).encode("ascii")

    def each(self, wanted: Iterable[tuple[T, bytes]], largest: int) -> Generator[tuple[T, PlainAnswer | None]]:
        """The answers to requests, in their order; None = another client is to ask. A request of b"" has no answer.

        largest: bytes that a body may have, 0 = the requests are HEADs. A server that isn't there, or is silent, is
        asked nothing more.
        """
        under_way: deque[tuple[T, bytes, _Connection | None]] = deque()
        try:
            for item, request in wanted:
                if len(under_way) == self._limit:
                    yield self._finished(under_way, largest)
                under_way.append((item, request, self._begun(request)))
            while under_way:
                yield self._finished(under_way, largest)
        finally:
            for _, _, connection in under_way:
                if connection:
                    connection.close()

    def _begun(self, request: bytes, *, is_new: bool = False) -> _Connection | None:
        if self._is_off or not request:
            return None
        connection = None
        try:
            connection = self._opened() if is_new or not self._idle else self._idle.pop()
            connection.send(request)
        except OSError:
            if connection is None:
                self._is_off = True
                return None
            connection.close()
            return self._begun(request, is_new=True) if connection.answers else None
        return connection

    def _finished(
        self, under_way: deque[tuple[T, bytes, _Connection | None]], largest: int
    ) -> tuple[T, PlainAnswer | None]:
        item, request, connection = under_way.popleft()
        while connection:
            try:
                answer = connection.receive(largest)
            except _EndedError:  # It had idled, or answered, for as long as its server lets it.
                connection.close()
                connection = self._begun(request, is_new=True) if connection.answers else None
            except (OSError, UnusualAnswerError) as error:
                connection.close()
                self._is_off = self._is_off or isinstance(error, TimeoutError)
                break
            else:
                if connection.is_kept:
                    self._idle.append(connection)
                else:
                    connection.close()
                return item, answer
        return item, None

    def _opened(self) -> _Connection:
        parts = urlsplit(f"//{self._host}")
        port = parts.port or (443 if self._scheme == "https" else 80)
        line = socket.create_connection((parts.hostname or "", port), self._timeout_s)
        try:
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._scheme == "https":
                self._context = self._context or self._tls()
                line = self._context.wrap_socket(line, server_hostname=parts.hostname)
        except BaseException:
            line.close()
            raise
        return _Connection(line)


class _EndedError(Exception):
    """A connection ended before the first byte of an answer."""


class _Connection:
    """A connection with at most one request under way."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self.close, self.send = line.close, line.sendall
        self.answers = 0
        """How many it has given."""
        self.is_kept = True

    def receive(self, largest: int) -> PlainAnswer:
        """Raises OSError, _EndedError, UnusualAnswerError."""
        data = self._line.recv(_BLOCK)
        if not data:
            raise _EndedError
        while (end := data.find(b"\r\n\r\n")) < 0:
            more = self._line.recv(_BLOCK)
            if not more or len(data) > _MAX_HEAD:
                raise UnusualAnswerError
            data += more
        head = data[: end + 2]
        lowered = head.lower()
        length = _length(head, lowered)
        if largest and length > largest:
            raise UnusualAnswerError
        body = self._body(data[end + 4 :], length if largest else 0)
        self.answers += 1
        self.is_kept = b"\r\nconnection: close" not in lowered
        return PlainAnswer(head, length, body)

    def _body(self, first: bytes, length: int) -> bytes | bytearray:
        if len(first) == length:
            return first
        if len(first) > length:  # More than its length: where the next answer begins can't be told.
            raise UnusualAnswerError
        body, at = bytearray(length), len(first)
        body[:at] = first
        view = memoryview(body)
        while at < length:
            count = self._line.recv_into(view[at:])
            if not count:
                raise UnusualAnswerError
            at += count
        return body


def _length(head: bytes, lowered: bytes) -> int:
    """The length of a plain answer. Raises UnusualAnswerError."""
    value = _value(head, lowered, b"content-length")
    is_plain = head.startswith(b"HTTP/1.1 200") and b"\r\ntransfer-encoding:" not in lowered
    if not is_plain or not value.isdecimal() or lowered.count(b"\r\ncontent-length:") != 1:
        raise UnusualAnswerError
    return int(value)


def _value(head: bytes, lowered: bytes, name: bytes) -> str:
    at = lowered.find(b"\r\n%b:" % name)
    if at < 0:
        return ""
    begin = at + len(name) + 3
    return head[begin : head.find(b"\r\n", begin)].strip().decode("latin-1")
