"""All logs of a job as one text: complete lines in the order of their arrival, each with its node and rank."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from drumbeat.model.logs import NODE_LOG
from drumbeat.server.jobs.log_reader import LogReader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from drumbeat.model.api.jobs import LogPiece
    from drumbeat.model.logs import LogName
    from drumbeat.server.home_folder import FolderArtifacts

PAGE_BYTES = 1 << 20


def merged_lines(artifacts: FolderArtifacts, job: str, *, has_times: bool) -> Iterator[str]:
    """Yields the lines of what is stored now, about a mebibyte at a time. Blocks on the disk.

    has_times: begins each line with the time at which the server received its beginning, in UTC.
    """
    reader, end = LogReader(artifacts, job), artifacts.log_end(job)
    lines = _Lines(has_times=has_times)
    while reader.position < end:
        before = reader.position
        pieces = reader.read(PAGE_BYTES)
        if reader.position == before:
            break
        yield "".join(line for piece in pieces for line in lines.add(piece))
    yield "".join(line for piece in reader.rest() for line in lines.add(piece))
    yield "".join(lines.rest())


class _Lines:
    """Puts lines together from pieces, which may end within one."""

    def __init__(self, *, has_times: bool) -> None:
        self._has_times = has_times
        self._begun: dict[LogName, tuple[str, str]] = {}
        """Of each log, the head and the text of its line whose end has not come."""

    def add(self, piece: LogPiece) -> Iterator[str]:
        """Yields the lines that a piece completes."""
        head, begun = self._begun.pop(piece.log, (self._head(piece), ""))
        *complete, rest = (begun + piece.text).split("\n")
        for line in complete:
            yield f"{head}{line}\n"
            head = self._head(piece)
        if rest:
            self._begun[piece.log] = head, rest

    def rest(self) -> Iterator[str]:
        """Yields the lines without an end."""
        return (f"{head}{text}\n" for head, text in self._begun.values())

    def _head(self, piece: LogPiece) -> str:
        whose = f"node {piece.node}" if piece.rank == NODE_LOG else f"{piece.node}:{piece.rank}"
        at = f"{datetime.fromtimestamp(piece.at, UTC):%Y-%m-%dT%H:%M:%S}Z " if self._has_times and piece.at else ""
        return f"{at}{whose} │ "
