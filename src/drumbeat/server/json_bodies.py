"""Parses JSON from jobs without blocking the event loop, whatever its size and shape.

Python's C parser holds the interpreter lock until it is done, which takes ten seconds for 13 MiB of `[]`, also in a
thread. Long texts are therefore parsed by the standard library's Python parser, piece by piece.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress
from json import decoder, scanner
from typing import Any, TypeVar, cast

from anyio import CapacityLimiter, to_thread

from drumbeat.model.errors import RefusedError

T = TypeVar("T")

SHORT = 64 << 10
"""Maximum size of a body that is parsed at once in the event loop, in bytes."""
MAX_CONTAINERS = 1 << 21
"""Maximum number of objects and lists in one text. A million files with an object each are half of it."""
READERS = CapacityLimiter(2)
"""Threads for long texts. More would only compete with each other and with the event loop."""
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_HALF = re.compile("[\ud800-\udfff]")
_RUN = 64 << 10
"""Maximum number of characters for one call of the C parser."""
_MAX_FAILED_RUNS = 16
_CLOSED = re.compile(r"\s*}")
_decoder: Any = decoder
_scanner: Any = scanner
"""The Python parser, which has no type annotations."""
_scan_run: Any = cast("Any", json.JSONDecoder()).scan_once


async def read_json(body: bytes, then: Callable[[dict[str, Any]], T], repaired: str = "?") -> T:
    """Parses a body to an object, and returns the result of `then`; a long body in a thread. Raises RefusedError."""
    if _is_plain(body):
        return then(json_object(body))
    return await to_thread.run_sync(lambda: then(json_object(body, repaired)), limiter=READERS)


def json_object(body: bytes, repaired: str = "?") -> dict[str, Any]:
    """Parses a body to an object. Raises RefusedError.

    File names that aren't UTF-8 contain lone surrogates in JSON, which responses can't contain. Each is replaced by
    `repaired`.
    """
    try:
        text = body.decode()
        read: object = json.loads(text) if _is_plain(body) else PieceReader(repaired).decode(text)
    except (ValueError, RecursionError):
        raise RefusedError("the body isn't JSON") from None
    if not isinstance(read, dict):
        raise RefusedError("the body isn't a JSON object")
    return cast("dict[str, Any]", read)


def _is_plain(body: bytes) -> bool:
    """Whether the C parser can be used: the text is short and has no lone surrogates."""
    return len(body) <= SHORT and not _SURROGATE.search(body)


class PieceReader(json.JSONDecoder):
    """Parses JSON in Python, except strings, numbers and runs of members that are objects. Replaces lone surrogates.

    Raises ValueError also for more than `MAX_CONTAINERS` objects and lists.
    """

    def __init__(self, repaired: str = "?") -> None:
        super().__init__(object_pairs_hook=lambda pairs: {self._repaired(key): value for key, value in pairs})
        self._containers = self._failed_runs = 0
        self._replacement = repaired
        reader = cast("Any", self)
        reader.parse_object, reader.parse_array, reader.parse_string = self._object, self._list, self._string
        reader.scan_once = _scanner.py_make_scanner(self)

    def _object(self, place: tuple[str, int], *settings: Any) -> tuple[Any, int]:
        self._count(1)
        text, start = place
        members: dict[str, Any] = {}
        while run := self._run(text, start):
            members |= run[0]
            start = run[1]
        if members and _CLOSED.match(text, start):
            raise ValueError
        others, end = _decoder.JSONObject((text, start), *settings)
        return members | others if members else others, end

    def _run(self, text: str, start: int) -> tuple[dict[str, Any], int] | None:
        """Parses many members of an object at once, and returns them with the next position; None = not possible."""
        end = text.rfind("},", start, start + _RUN) + 1
        if not end or self._failed_runs == _MAX_FAILED_RUNS:
            return None
        run = f"{{{text[start:end]}}}"
        read: dict[str, Any] = {}
        length = 0
        with suppress(ValueError, StopIteration, RecursionError):
            if "\\u" not in run:
                read, length = _scan_run(run, 0)
        if length < len(run):
            self._failed_runs += 1
            return None
        self._count(run.count("{") + run.count("["))
        return read, end + 1

    def _list(self, place: tuple[str, int], scan_once: Any) -> tuple[Any, int]:
        self._count(1)
        return _decoder.JSONArray(place, scan_once)

    def _count(self, more: int) -> None:
        self._containers += more
        if self._containers > MAX_CONTAINERS:
            raise ValueError

    def _string(self, text: str, start: int, strict: bool = True) -> tuple[str, int]:
        string, end = _decoder.scanstring(text, start, strict)
        return self._repaired(string), end

    def _repaired(self, text: str) -> str:
        return text if text.isascii() else _HALF.sub(self._replacement, text)
