"""Requests and answers of the scoring server, apart from their connections."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, unquote

JSON_TYPE = "application/json"
FAILED_RUN = "An unexpected error occurred in scoring script. Check the logs for more info."
FAILED_ANSWER = "An unexpected internal error occurred. Check the logs for more info."
HEADER_LIMIT = 100
"""The maximum length of a request's ids, in characters, as in Azure's server."""
_BREAKS_HEAD = re.compile(r"[\r\n\0]")
_REASONS = {status.value: status.phrase for status in HTTPStatus}
_FRAMING = frozenset({"content-length", "transfer-encoding", "connection", "keep-alive", "upgrade"})
"""Headers that belong to a connection: the server writes its own."""


@dataclass
class ScoringRequest:
    """One request, with its whole body."""

    method: str
    target: str
    """Path and query as they were sent."""
    headers: dict[str, str]
    """Values by name in lower case; repeated headers are joined by commas."""
    body: bytes
    is_http_1_0: bool = False
    keeps_connection: bool = True
    raw_headers: list[tuple[bytes, bytes]] = field(default_factory=list[tuple[bytes, bytes]])
    """Names and values as they were sent, for a program behind this server."""

    def header(self, name: str, default: str = "") -> str:
        """Returns the value of a header; name: in lower case."""
        return self.headers.get(name, default)

    @property
    def path(self) -> str:
        """The path, unquoted."""
        return unquote(self.target.partition("?")[0])

    @property
    def query(self) -> str:
        """What follows the question mark."""
        return self.target.partition("?")[2]

    @property
    def parameters(self) -> list[tuple[str, str]]:
        """Names and values of the query, in its order."""
        return parse_qsl(self.query, keep_blank_values=True)

    @property
    def media_type(self) -> str:
        """The media type of the body, without parameters and in lower case."""
        return self.header("content-type").partition(";")[0].strip().lower()

    @property
    def is_json(self) -> bool:
        """Whether the body is declared as JSON."""
        kind = self.media_type
        return kind == JSON_TYPE or (kind.startswith("application/") and kind.endswith("+json"))

    def titled_headers(self) -> dict[str, str]:
        """The headers as Azure's server gives them to `run(request_headers)`: `Content-Type`, `X-Ms-Request-Id`."""
        return {name.title(): value for name, value in self.headers.items()}


@dataclass
class ScoringAnswer:
    """An answer: its body is whole, or comes in pieces that are sent as they are made."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes | Iterator[bytes]
    has_ids: bool = True
    """Whether it gets the headers of ids: Azure's server answers unknown routes without."""

    def add(self, name: str, value: str) -> None:
        """Adds a header."""
        self.headers.append((name, value))

    def replace(self, name: str, value: str) -> None:
        """Sets a header in place of those of the same name."""
        low = name.lower()
        self.headers = [(one, text) for one, text in self.headers if one.lower() != low]
        self.headers.append((name, value))

    @property
    def is_streamed(self) -> bool:
        """Whether the body comes in pieces."""
        return not isinstance(self.body, bytes)


def json_answer(value: Any, status: int = 200, *, has_run_failed: bool = False) -> ScoringAnswer:
    """An answer in JSON. Raises TypeError and ValueError for values that JSON can't hold."""
    body = json.dumps({} if value is None else value).encode()
    return ScoringAnswer(status, [("Content-Type", JSON_TYPE), ("x-ms-run-function-failed", str(has_run_failed))], body)


def error_answer(status: int, message: str, *, has_run_failed: bool = False) -> ScoringAnswer:
    """An answer with a message, as Azure's server gives it."""
    return json_answer({"message": message}, status, has_run_failed=has_run_failed)


def text_answer(text: str, status: int = 200) -> ScoringAnswer:
    """An answer in plain text."""
    return ScoringAnswer(status, [("Content-Type", "text/html; charset=utf-8")], text.encode())


def render_head(answer: ScoringAnswer, *, length: int | None, is_chunked: bool, closes: bool) -> bytes:
    """The head of an answer. Raises ValueError for a header that would break out of its line."""
    lines = [f"HTTP/1.1 {answer.status} {_REASONS.get(answer.status, 'Unknown')}"]
    for name, value in answer.headers:
        if _BREAKS_HEAD.search(name) or _BREAKS_HEAD.search(value) or ":" in name:
            raise ValueError(f"the header {name!r} has a line break or a colon in it")
        if name.lower() not in _FRAMING:
            lines.append(f"{name}: {value}")
    if is_chunked:
        lines.append("Transfer-Encoding: chunked")
    elif length is not None:
        lines.append(f"Content-Length: {length}")
    if closes:
        lines.append("Connection: close")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")


def chunk(piece: bytes) -> bytes:
    """A piece of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(piece), piece)


LAST_CHUNK = b"0\r\n\r\n"


def header_value(headers: Iterable[tuple[str, str]], name: str) -> str:
    """The value of the first header of a name (in lower case), "" = none."""
    return next((value for one, value in headers if one.lower() == name), "")
