"""The order in which pieces of a job's logs arrived: a file of records of one size, added to at its end.

Only a record whose bytes a crash took is changed afterwards: it is made shorter. A record's place in the file is its
position, so following on from one is a seek. A record that is torn, or whose position isn't its place, ends the
journal: a crash leaves such a thing at the end only.
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
"""Records read at once."""


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
        """Where the next piece of this log begins."""
        return self.offset + self.length

    def packed(self) -> bytes:
        """The record."""
        return _RECORD.pack(self.position, *self.log, self.offset, self.length, self.at)


def shorten(journal: int, position: int, length: int) -> None:
    """Says how much there is of a piece. journal: open for writing, not for appending.

    The four bytes lie in one sector of a disk, so a crash leaves the old length or the new one.
    """
    os.pwrite(journal, _LENGTH.pack(length), (position - 1) * RECORD_SIZE + _LENGTH_AT)


def read_pieces(journal: BinaryIO, after: int = 0) -> Iterator[JournalEntry]:
    """The pieces after position `after`, up to the first record that isn't whole."""
    journal.seek(after * RECORD_SIZE)
    expected = after
    while block := journal.read(_BLOCK * RECORD_SIZE):
        for fields in _RECORD.iter_unpack(block[: len(block) // RECORD_SIZE * RECORD_SIZE]):
            expected += 1
            if fields[0] != expected:
                return
            yield JournalEntry(fields[0], LogName(*fields[1:5]), *fields[5:])


def read_pieces_back(journal: BinaryIO, end: int) -> Iterator[JournalEntry]:
    """The pieces up to position `end`, the last one first."""
    while end > 0:
        start = max(0, end - _BLOCK)
        pieces = list(itertools.islice(read_pieces(journal, start), end - start))
        yield from reversed(pieces)
        end = start
