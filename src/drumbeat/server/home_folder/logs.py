"""A job's logs: growing files, and the journal with the order in which they grew.

Data is written before its record. After a crash or on a full disk, data without a record gets its record with the next
append to that log. There is a next one, because an agent that got no response sends again.

A power failure may also keep a record and lose its data. Readers then get the remaining part of the piece. Its agent
sends the rest again: the record is shortened to the existing data, and the rest gets a record of its own. Before a node
may remove its logs, everything is flushed to the disk (`settle`).

`node/logs/sender.py` decides what a node sends again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Self

from drumbeat.model.failpoints import failpoint
from drumbeat.model.logs import NODE_LOG, LogName, parse_rank
from drumbeat.model.sparse_files import extend, write_at
from drumbeat.server.home_folder import log_ring
from drumbeat.server.home_folder.atomic_files import locked, sync_file, sync_folder, write_all
from drumbeat.server.home_folder.journal import RECORD_SIZE, JournalEntry, read_pieces, read_pieces_back, shorten
from drumbeat.server.home_folder.paths import inside
from drumbeat.server.home_folder.stored_files import LogChunk

JOURNAL = ".journal"
LONGEST_PIECE = 256 << 10
"""Maximum bytes of a log in one record, so that a follower's page stays small even after a large append."""

_OPEN_AT_ONCE = 64


class JobLogs:
    """The writing side, for one thread at a time; other processes may write concurrently.

    Files aren't kept open, because opening one takes only about 4 µs.
    """

    def __init__(self, folder: Path, now: Callable[[], float]) -> None:
        self._folder = folder
        self._now = now
        self._places: dict[LogName, Path] = {}
        self._ends: dict[LogName, int] = {}
        """The recorded size of each log."""
        self._position: int = 0
        self._size: int = 0
        """Bytes of all pieces and their records, without those that were dropped."""
        self._inode: int = 0
        """The inode of the journal from which position and sizes were read."""

    def append(self, log: LogName, offset: int, data: bytes, keep: int = 0) -> int:
        """See `FolderArtifacts.append_log`. After an exception, this object must not be used again."""
        place = self._place(log)
        with locked(self._folder / JOURNAL, os.O_RDWR | os.O_APPEND) as journal:
            self._catch_up(journal)
            self._forget_lost(log, place)
            size = append_beyond(place, offset, data)
            failpoint("store.log_grown")
            self._record(journal, log, size)
            if keep and self._size > keep + keep // log_ring.SLACK:
                self._size -= log_ring.drop_oldest(self._folder, journal, self._size - keep)
        failpoint("store.log_recorded")
        return size

    def _place(self, log: LogName) -> Path:
        place = self._places.get(log)
        if place is None:
            place = inside(self._folder, log.path)
            place.parent.mkdir(0o700, parents=True, exist_ok=True)
            self._places[log] = place
        return place

    def _catch_up(self, journal: int) -> None:
        """Reads new records, from before a restart or of another process, and truncates a torn end."""
        status = os.fstat(journal)
        # The known logs may have been removed since, and a new journal may have the same inode.
        if status.st_ino != self._inode or status.st_size < self._position * RECORD_SIZE:
            dropped = log_ring.read_dropped(self._folder)
            self._inode, self._position, self._size = status.st_ino, dropped.position, 0
            self._ends = {LogName.from_path(path): end for path, end in dropped.ends.items()}
        if status.st_size == self._position * RECORD_SIZE:
            return
        with os.fdopen(os.dup(journal), "rb") as file:
            for piece in read_pieces(file, self._position):
                self._ends[piece.log] = max(piece.end, self._ends.get(piece.log, 0))
                self._position = piece.position
                self._size += log_ring.cost(piece)
        os.ftruncate(journal, self._position * RECORD_SIZE)

    def _forget_lost(self, log: LogName, place: Path) -> None:
        """Shortens the records of a log to its data."""
        try:
            size = place.stat().st_size
        except FileNotFoundError:
            size = 0
        if self._ends.get(log, 0) <= size:
            return
        with (self._folder / JOURNAL).open("r+b") as file:
            for piece in list(read_pieces(file, log_ring.read_dropped(self._folder).position)):
                if piece.log == log and piece.end > size:
                    shorten(file.fileno(), piece.position, max(0, size - piece.offset))
        self._ends[log] = size

    def _record(self, journal: int, log: LogName, size: int) -> None:
        start = self._ends.get(log, 0)
        if size <= start:
            return
        pieces = list(self._pieces(log, start, size))
        write_all(journal, b"".join(piece.packed() for piece in pieces))
        self._ends[log] = size
        self._size += sum(map(log_ring.cost, pieces))
        self._position = pieces[-1].position

    def _pieces(self, log: LogName, start: int, size: int) -> Iterator[JournalEntry]:
        """Yields pieces that end with a line if possible, because a reader may have to wait after any of them."""
        now, position = self._now(), self._position
        while start < size:
            length = size - start
            if length > LONGEST_PIECE:
                length = self._to_last_line(log, start) or LONGEST_PIECE
            position += 1
            yield JournalEntry(position, log, start, length, now)
            start += length

    def _to_last_line(self, log: LogName, start: int) -> int:
        """Returns the length of the complete lines in a piece from a start, 0 = there is none."""
        with self._place(log).open("rb") as file:
            file.seek(start)
            return file.read(LONGEST_PIECE).rfind(b"\n") + 1


def append_beyond(place: Path, offset: int, data: bytes, hole: int = 0) -> int:
    """Appends the part of `data` and of the hole after it beyond the file's size. Returns the new size.

    Ignores data that begins beyond the file's end, because it would leave a gap.
    """
    with locked(place, os.O_WRONLY) as descriptor:
        size = os.fstat(descriptor).st_size
        if offset <= size < (end := offset + len(data) + hole):
            write_at(descriptor, data[size - offset :], size)
            extend(descriptor, end)
            size = end
        return size


def settle(folder: Path, attempt: int, round: int, node: int) -> None:
    """See `FolderArtifacts.settle_logs`."""
    node_log = inside(folder, LogName(attempt, round, node, NODE_LOG).path)
    if not node_log.parent.is_dir():
        return
    for file in [*filter(_is_log, node_log.parent.iterdir()), folder / JOURNAL]:
        with suppress(FileNotFoundError, PermissionError):  # A user has changed the folder.
            sync_file(file)
    for above in node_log.parents[: len(node_log.relative_to(folder).parts)]:
        sync_folder(above)


def _is_log(file: Path) -> bool:
    """Whether a file is a log, and not another program's file."""
    with suppress(ValueError):
        parse_rank(file.stem)
        return file.suffix == ".log" and not file.is_symlink() and file.is_file()
    return False


def read_chunks(folder: Path, after: int, limit: int) -> list[LogChunk]:
    """See `FolderArtifacts.log_chunks`. Reads concurrently with a writer, as data is written before its record."""
    try:
        journal = (folder / JOURNAL).open("rb")
    except FileNotFoundError:
        return []
    with journal:
        while True:
            dropped = log_ring.read_dropped(folder)
            chunks = _read_chunks(folder, journal, max(after, dropped.position), limit)
            if dropped == log_ring.read_dropped(folder):
                break  # Else some of these pieces may have been dropped while they were read.
    if chunks and after < dropped.position:
        first, line = chunks[0], dropped.message.encode()
        offset = max(0, first.offset - len(line))
        return [LogChunk(dropped.position, first.log, offset, line, first.at), *chunks]
    return chunks


def _read_chunks(folder: Path, journal: BinaryIO, after: int, limit: int) -> list[LogChunk]:
    chunks: list[LogChunk] = []
    with _Logs(folder) as logs:
        for piece in read_pieces(journal, after):
            data = logs.read(piece)
            if len(data) < piece.length:
                data = _under_lock(folder, piece, logs)
            if not data:
                continue
            chunks.append(LogChunk(piece.position, piece.log, piece.offset, data, piece.at))
            limit -= piece.length + RECORD_SIZE
            if limit <= 0:
                break
    return chunks


def _under_lock(folder: Path, piece: JournalEntry, logs: _Logs) -> bytes:
    """Reads a piece under the writers' lock, because on a network disk another machine's data may come late."""
    with locked(folder / JOURNAL, os.O_RDONLY) as journal, os.fdopen(os.dup(journal), "rb") as file:
        return logs.read(next(read_pieces(file, piece.position - 1), piece))


def last_position(folder: Path) -> int:
    """See `FolderArtifacts.log_end`."""
    try:
        return (folder / JOURNAL).stat().st_size // RECORD_SIZE
    except FileNotFoundError:
        return 0


def start_position(folder: Path, end: int, length: int) -> int:
    """See `FolderArtifacts.log_start`."""
    try:
        journal = (folder / JOURNAL).open("rb")
    except FileNotFoundError:
        return 0
    with journal:
        for piece in read_pieces_back(journal, end, log_ring.read_dropped(folder).position):
            length -= piece.length
            if length <= 0:
                return piece.position - 1
    return 0


class _Logs:
    """The open log files during the read of a page."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: dict[LogName, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        while self._open:
            os.close(self._open.popitem()[1])

    def read(self, piece: JournalEntry) -> bytes:
        """Returns the piece's bytes, as far as they exist."""
        if piece.log not in self._open:
            if len(self._open) >= _OPEN_AT_ONCE:
                self.__exit__()
            try:
                self._open[piece.log] = os.open(self._folder / piece.log.path, os.O_RDONLY | os.O_NOFOLLOW)
            except FileNotFoundError:
                return b""
        return os.pread(self._open[piece.log], piece.length, piece.offset)
