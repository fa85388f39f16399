"""Makes answers of what a script returns: values, responses, and generators whose pieces are sent as they come."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Iterator
from typing import Any, cast

from drumbeat.scoring.messages import JSON_TYPE, ScoringAnswer, ScoringRequest, header_value

FAILED = "x-ms-run-function-failed"
EVENT_STREAM = "text/event-stream"


def answer_of(result: Any, request: ScoringRequest) -> ScoringAnswer:
    """The answer for a result of `run`. Raises TypeError and ValueError for values that JSON can't hold."""
    if inspect.isgenerator(result):
        return _stream(result, request)
    if hasattr(result, "status_code") and hasattr(result, "headers"):
        return _response(result)
    body = json.dumps({} if result is None else result, default=_plain)
    return ScoringAnswer(200, [("Content-Type", JSON_TYPE), (FAILED, "False")], body.encode())


def _plain(value: Any) -> Any:
    """A value of numpy or pandas as JSON has it. Azure's server answers 500 for these."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if hasattr(value, "to_dict"):
        return value.to_dict(orient="records")
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def _response(result: Any) -> ScoringAnswer:
    """The answer for an AMLResponse or a response of Flask."""
    headers = [(str(name), str(value)) for name, value in result.headers.items()]
    status = int(result.status_code)
    if hasattr(result, "iter_encoded"):
        streamed = bool(result.is_streamed)
        body = iter(result.iter_encoded()) if streamed else cast("bytes", result.get_data())
    else:
        body = _body(result.response)
    answer = ScoringAnswer(status, headers, body)
    if status >= 500:
        answer.replace(FAILED, "True")
    return answer


def _body(value: Any) -> bytes | Iterator[bytes]:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    if isinstance(value, Iterable):
        return (_text(piece) for piece in cast("Iterable[Any]", value))
    raise TypeError(f"the body of a response can't be of type {type(value).__name__}")


def _text(piece: Any) -> bytes:
    return piece if isinstance(piece, bytes) else str(piece).encode()


def _stream(pieces: Iterator[Any], request: ScoringRequest) -> ScoringAnswer:
    """Text and bytes go out as they are, other values as lines of JSON; or each piece is an event, if the client
    accepts `text/event-stream`.
    """
    if EVENT_STREAM in request.header("accept"):
        headers = [("Content-Type", EVENT_STREAM), ("Cache-Control", "no-cache"), (FAILED, "False")]
        return ScoringAnswer(200, headers, _Mapped(pieces, _event))
    # The first piece says of which type the body is, so it is made before the head is sent.
    first = next(pieces, None)
    is_text = first is None or isinstance(first, str | bytes)
    kind = "text/plain; charset=utf-8" if is_text else "application/x-ndjson"
    return ScoringAnswer(200, [("Content-Type", kind), (FAILED, "False")], _Mapped(pieces, _line, first))


class _Mapped:
    """Pieces of a generator as bytes. Closing it closes the generator, so that `finally` there runs at once."""

    def __init__(self, pieces: Iterator[Any], encode: Any, first: Any = None) -> None:
        self._pieces, self._encode, self._first = pieces, encode, first

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        piece, self._first = (next(self._pieces), None) if self._first is None else (self._first, None)
        return self._encode(piece)

    def close(self) -> None:
        close = getattr(self._pieces, "close", None)
        if close is not None:
            close()


def _line(piece: Any) -> bytes:
    if isinstance(piece, str | bytes):
        return _text(piece)
    return json.dumps(piece, default=_plain).encode() + b"\n"


def _event(piece: Any) -> bytes:
    if isinstance(piece, bytes):
        return piece  # The script writes its events itself.
    text = piece if isinstance(piece, str) else json.dumps(piece, default=_plain)
    return "".join(f"data: {line}\n" for line in text.split("\n")).encode() + b"\n"


def content_type(answer: ScoringAnswer) -> str:
    """The type of an answer's body."""
    return header_value(answer.headers, "content-type")
