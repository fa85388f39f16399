"""The end of a job's logs: about so many bytes of what arrived last, from a whole line on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from drumbeat.server.api.log_reader import LogReader

if TYPE_CHECKING:
    from drumbeat.ports import Artifacts
    from drumbeat.protocol.api.jobs import LogPiece

PAGE_BYTES = 1 << 20
MAX_GROWTH = 16
"""How many times as many pieces are read when those before were too short: their length says little of older ones."""


@dataclass(frozen=True)
class LogTail:
    """The last pieces of a job's logs.

    first: everything older is among the pieces up to this position; of one that was cut that is its own. end: the
    position of the last piece.
    """

    pieces: list[LogPiece]
    first: int
    end: int


def read_tail(artifacts: Artifacts, job: str, wanted: int) -> LogTail:
    """Reads the end of the logs, about `wanted` bytes. Blocks on the disk."""
    end, span = artifacts.log_end(job), 1
    while True:
        start = max(0, end - span)
        pieces = _read_range(artifacts, job, start, end)
        length = sum(len(piece.text) for piece in pieces)
        if start == 0 or length >= wanted:
            return LogTail(*_trimmed(pieces, start, length - wanted), end)
        span = min(span * MAX_GROWTH, max(span * 2, span * wanted // max(length, 1)))


def _read_range(artifacts: Artifacts, job: str, start: int, end: int) -> list[LogPiece]:
    reader = LogReader(artifacts, job, start)
    pieces: list[LogPiece] = []
    while reader.position < end:
        before = reader.position
        pieces += reader.read(PAGE_BYTES)
        if reader.position == before:
            break
    return [piece for piece in pieces if piece.position <= end]


def _trimmed(pieces: list[LogPiece], start: int, surplus: int) -> tuple[list[LogPiece], int]:
    """The pieces without about `surplus` characters at their beginning, and the position of what is older."""
    skipped = 0
    while skipped < len(pieces) and surplus >= len(pieces[skipped].text):
        surplus -= len(pieces[skipped].text)
        start = pieces[skipped].position
        skipped += 1
    kept = pieces[skipped:]
    at = kept[0].text.find("\n", surplus) + 1 if kept and surplus > 0 else 0
    if at and at < len(kept[0].text):
        gone = len(kept[0].text[:at].encode())
        return [replace(kept[0], offset=kept[0].offset + gone, text=kept[0].text[at:]), *kept[1:]], kept[0].position
    return kept, start
