"""The logs of a job as text: pieces in the order of their arrival, decoded per rank."""

from __future__ import annotations

import codecs
from contextlib import suppress
from typing import TYPE_CHECKING

from drumbeat.protocol.errors import DrumbeatError
from drumbeat.protocol.layout import log_file
from drumbeat.server.api.views import LogView

if TYPE_CHECKING:
    from drumbeat.ports import Artifacts, LogChunk

File = tuple[int, int, int, int]
"""attempt, round, node, rank"""

LONGEST_CHARACTER = 4


class LogReader:
    """Reads on after a position.

    A character that was cut between two pieces comes whole with the later one, also when the earlier piece was read by
    another reader.
    """

    def __init__(self, artifacts: Artifacts, job: str, position: int = 0) -> None:
        self.artifacts, self.job, self.position = artifacts, job, position
        self._decoders: dict[File, codecs.IncrementalDecoder] = {}
        self._ends: dict[File, int] = {}

    def read(self, limit: int) -> list[LogView]:
        """The next pieces, about `limit` bytes; [] = no more yet. Blocks on the disk."""
        chunks = self.artifacts.log_chunks(self.job, after=self.position, limit=limit)
        if chunks:
            self.position = chunks[-1].position
        return [view for chunk in chunks if (view := self._view(chunk)).text]

    def rest(self) -> list[LogView]:
        """What is left of characters that never came whole."""
        found: list[LogView] = []
        for file, decoder in self._decoders.items():
            attempt, round_, node, rank = file
            if text := decoder.decode(b"", final=True):
                found.append(
                    LogView(
                        position=self.position, attempt=attempt, round=round_, node=node, rank=rank,
                        offset=self._ends[file], text=text,
                    )
                )  # fmt: skip
        return found

    def _view(self, chunk: LogChunk) -> LogView:
        file = (chunk.attempt, chunk.round, chunk.node, chunk.rank)
        if self._ends.get(file) != chunk.offset:
            self._decoders[file] = self._decoder_at(chunk)
        self._ends[file] = chunk.offset + len(chunk.data)
        return LogView(
            position=chunk.position, attempt=chunk.attempt, round=chunk.round, node=chunk.node, rank=chunk.rank,
            offset=chunk.offset, text=self._decoders[file].decode(chunk.data),
        )  # fmt: skip

    def _decoder_at(self, chunk: LogChunk) -> codecs.IncrementalDecoder:
        """A decoder that has seen the beginning of the character that the chunk goes on with."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        if chunk.offset and chunk.data and is_continuation(chunk.data[0]):
            before = self._before(chunk)
            start = next((i for i in reversed(range(len(before))) if not is_continuation(before[i])), len(before))
            decoder.decode(before[start:])
        return decoder

    def _before(self, chunk: LogChunk) -> bytes:
        start = max(0, chunk.offset - LONGEST_CHARACTER + 1)
        with suppress(DrumbeatError, OSError):
            name = log_file(chunk.attempt, chunk.round, chunk.node, chunk.rank)
            with self.artifacts.open_file(self.job, name).open("rb") as file:
                file.seek(start)
                return file.read(chunk.offset - start)
        return b""


def is_continuation(byte: int) -> bool:
    """Whether a byte stands inside a UTF-8 character, not at its beginning."""
    return byte & 0xC0 == 0x80
