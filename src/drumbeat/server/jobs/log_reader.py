"""Reads the logs of a job as text: pieces in the order of their arrival, decoded per rank."""

from __future__ import annotations

import codecs
from contextlib import suppress
from typing import TYPE_CHECKING

from drumbeat.model.api.jobs import LogPiece
from drumbeat.model.errors import DrumbeatError
from drumbeat.model.logs import LogName

if TYPE_CHECKING:
    from drumbeat.server.home_folder import FolderArtifacts
    from drumbeat.server.home_folder.stored_files import LogChunk

LONGEST_CHARACTER = 4


class LogReader:
    """Reads logs from a position.

    A character that was split between two pieces is returned with the later one, also if another reader read the
    earlier piece.
    """

    def __init__(self, artifacts: FolderArtifacts, job: str, position: int = 0) -> None:
        self.artifacts, self.job, self.position = artifacts, job, position
        self._decoders: dict[LogName, codecs.IncrementalDecoder] = {}
        self._ends: dict[LogName, int] = {}

    def read(self, limit: int) -> list[LogPiece]:
        """Returns the next pieces, about `limit` bytes; [] = no more yet. Blocks on the disk."""
        chunks = self.artifacts.log_chunks(self.job, after=self.position, limit=limit)
        if chunks:
            self.position = chunks[-1].position
        return [piece for chunk in chunks if (piece := self._decode(chunk)).text]

    def rest(self) -> list[LogPiece]:
        """Returns the rest of characters that were never completed."""
        rests = ((log, decoder.decode(b"", final=True)) for log, decoder in self._decoders.items())
        return [LogPiece(self.position, *log, self._ends[log], text) for log, text in rests if text]

    def _decode(self, chunk: LogChunk) -> LogPiece:
        if self._ends.get(chunk.log) != chunk.offset:
            self._decoders[chunk.log] = self._decoder_at(chunk)
        self._ends[chunk.log] = chunk.offset + len(chunk.data)
        text = self._decoders[chunk.log].decode(chunk.data)
        return LogPiece(chunk.position, *chunk.log, chunk.offset, text, chunk.at)

    def _decoder_at(self, chunk: LogChunk) -> codecs.IncrementalDecoder:
        """Returns a decoder that has seen the beginning of the character that the chunk continues."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        if chunk.offset and chunk.data and is_continuation(chunk.data[0]):
            before = self._before(chunk)
            start = next((i for i in reversed(range(len(before))) if not is_continuation(before[i])), len(before))
            decoder.decode(before[start:])
        return decoder

    def _before(self, chunk: LogChunk) -> bytes:
        start = max(0, chunk.offset - LONGEST_CHARACTER + 1)
        with suppress(DrumbeatError, OSError), self.artifacts.open_file(self.job, chunk.log.path).open("rb") as file:
            file.seek(start)
            return file.read(chunk.offset - start)
        return b""


def is_continuation(byte: int) -> bool:
    """Whether a byte is a continuation byte of UTF-8."""
    return byte & 0xC0 == 0x80
