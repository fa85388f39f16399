"""What of a job's logs was dropped because its plan limits them: the oldest pieces, in the order of their arrival.

What was dropped is written before its space is given back, so a crash in between costs space until the next time.
Offsets and positions stay what they were: agents and followers go on where they are.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from drumbeat.model.sparse_files import drop_beginning
from drumbeat.server.home_folder.atomic_files import put_whole
from drumbeat.server.home_folder.journal import RECORD_SIZE, JournalEntry, read_pieces

NAME = ".dropped"
SLACK = 8
"""Logs grow past their limit by this fraction of it (a divisor), so that pieces aren't dropped one by one."""


@dataclass(frozen=True)
class DroppedLogs:
    """What of a job's logs was dropped."""

    position: int = 0
    """That of the last dropped piece."""
    size: int = 0
    """Bytes of all dropped pieces."""
    ends: dict[str, int] = field(default_factory=dict[str, int])
    """Where the dropped part of each log ends, by its path."""

    @property
    def message(self) -> str:
        """The line in place of what was dropped."""
        mib = self.size / (1 << 20)
        return f"drumbeat: {mib:,.1f} MiB of this job's logs before this line were dropped (drumbeat: max_log_mib)\n"


def read_dropped(folder: Path) -> DroppedLogs:
    """Returns what was dropped of the logs of a job's folder."""
    with suppress(FileNotFoundError):
        return DroppedLogs(**json.loads((folder / NAME).read_text()))
    return DroppedLogs()


def cost(piece: JournalEntry) -> int:
    """Returns the bytes that a piece takes, with its record."""
    return piece.length + RECORD_SIZE


def drop_oldest(folder: Path, journal: int, surplus: int) -> int:
    """Drops about `surplus` bytes of the oldest pieces, but never the last one. Returns how many bytes they took.

    journal: locked. Raises OSError.
    """
    before, rest = read_dropped(folder), surplus
    position, size, ends = before.position, before.size, dict(before.ends)
    with os.fdopen(os.dup(journal), "rb") as file:
        last = os.fstat(journal).st_size // RECORD_SIZE
        for piece in read_pieces(file, before.position):
            if rest <= 0 or piece.position >= last:
                break
            rest -= cost(piece)
            position, size = piece.position, size + piece.length
            ends[piece.log.path] = max(ends.get(piece.log.path, 0), piece.end)
    text = json.dumps(asdict(DroppedLogs(position, size, ends)))
    put_whole(folder / NAME, [text.encode()], folder / f"{NAME}.new")
    with suppress(OSError):  # The file system has no holes: the space is taken until the logs are removed.
        drop_beginning(journal, position * RECORD_SIZE)
        for path, end in ends.items():
            _drop_beginning(folder / path, end)
    return surplus - rest


def _drop_beginning(file: Path, size: int) -> None:
    with suppress(FileNotFoundError):
        descriptor = os.open(file, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            drop_beginning(descriptor, size)
        finally:
            os.close(descriptor)
