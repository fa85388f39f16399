"""The journal of a job's logs: an append-only file of fixed-size records in the order in which pieces arrived.

A record is changed only to shorten it, after a crash has lost some of its data; those of dropped pieces, at the
beginning, read as zeros (`log_ring.py`). A record's index in the file is its
position, so continuing after a position is a seek. A torn record, or one with a wrong position, ends the journal: a
crash leaves such records only at the end.
"""

from __future__ import annotations

import itertools
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from drumbeat.model.logs import LogName

_RECORD = struct.Struct("<QIIIiQI4xd")
RECORD_SIZE = _RECORD.size
_LENGTH, _LENGTH_AT = struct.Struct("<I"), struct.calcsize("<QIIIiQ")
_BLOCK = 1024
"""Number of records that are read at once."""


@dataclass(frozen=True)
class JournalEntry:
    """The arrival of bytes [offset, offset + length) of one log."""

    position: int
    """From 1."""
    log: LogName
    offset: int
    length: int
    at: float
    """Seconds since the epoch."""

    @property
    def end(self) -> int:
        """The offset of the next piece of this log."""
        return self.offset + self.length

    def packed(self) -> bytes:
        """Returns the record's bytes."""
        return _RECORD.pack(self.position, *self.log, self.offset, self.length, self.at)


def shorten(journal: int, position: int, length: int) -> None:
    """Shortens the record of a piece. journal: open for writing, not for appending.

    The four bytes are in one sector of the disk, so a crash leaves either the old length or the new one.
    """
    os.pwrite(journal, _LENGTH.pack(length), (position - 1) * RECORD_SIZE + _LENGTH_AT)


def read_pieces(journal: BinaryIO, after: int = 0) -> Iterator[JournalEntry]:
    """Yields the pieces after position `after`, up to the first torn record."""
    journal.seek(after * RECORD_SIZE)
    expected = after
    while block := journal.read(_BLOCK * RECORD_SIZE):
        for fields in _RECORD.iter_unpack(block[: len(block) // RECORD_SIZE * RECORD_SIZE]):
            expected += 1
            if fields[0] != expected:
                return
            yield JournalEntry(fields[0], LogName(*fields[1:5]), *fields[5:])


def read_pieces_back(journal: BinaryIO, end: int, after: int = 0) -> Iterator[JournalEntry]:
    """Yields the pieces up to position `end` and after position `after`, last first."""
    while end > after:
        start = max(after, end - _BLOCK)
        pieces = list(itertools.islice(read_pieces(journal, start), end - start))
        yield from reversed(pieces)
        end = start
