"""The spool of a node: lines of `model.metric_lines` on the node's disk, in segments, with continuous offsets.

A segment is a file named by the offset at which it begins. An answer waits for the sync that covers its lines, and only
synced lines can be read, so nothing that the server has accepted can be lost here. One process at a time opens a spool.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from drumbeat.model.metric_lines import Spooled, decode_record, spooled
from drumbeat.node.metrics.folder import SEGMENT, segments

SEGMENT_BYTES = 16 << 20
MAX_UNSENT_BYTES = 2 << 30
KEPT_BYTES = 64 << 20
"""How much of the acknowledged part is kept, for readers while the server is away."""


class SpoolFullError(Exception):
    """Raised when the spool is full: its disk or its limit is reached."""


@dataclass
class _Batch:
    """Lines of several writers that one sync covers."""

    parts: list[bytes] = field(default_factory=list[bytes])
    is_done: bool = False
    error: str = ""


class Spool:
    """The lines in `folder`. Thread-safe.

    A line that was truncated when a process or the machine ended had no answer, and is removed. max_unsent: the maximum
    of unacknowledged bytes. kept: how many acknowledged bytes stay. segment: the size of a file.
    """

    def __init__(
        self,
        folder: str,
        max_unsent: int = MAX_UNSENT_BYTES,
        *,
        kept: int = KEPT_BYTES,
        segment: int = SEGMENT_BYTES,
    ) -> None:
        self._folder, self._max_unsent, self._kept, self._segment = folder, max_unsent, kept, segment
        os.makedirs(folder, mode=0o700, exist_ok=True)
        self._batch, self._lock, self._writing = _Batch(), threading.Lock(), threading.Lock()
        self._grown = threading.Condition(self._lock)
        self._starts = segments(folder) or [0]
        self._file = self._open(self._starts[-1])
        self._end = self._starts[-1] + self._cut_tail()
        self._pending = self._end
        self._released = self._starts[0]
        self._is_closed = False

    @property
    def end(self) -> int:
        """The end of the spool on disk."""
        return self._end

    @property
    def start(self) -> int:
        """The offset of the oldest remaining line."""
        return self._starts[0]

    def append(self, lines: bytes) -> None:
        """Adds complete lines; returns when they are on disk. Raises SpoolFullError: then none of them is kept."""
        with self._lock:
            if self._pending + len(lines) - self._released > self._max_unsent:
                raise SpoolFullError(f"{self._max_unsent >> 20} MiB wait for the server already")
            batch = self._batch
            batch.parts.append(lines)
            self._pending += len(lines)
        # The first writer writes the lines of all that wait behind it.
        with self._writing:
            if not batch.is_done:
                self._write(batch)
        if batch.error:
            raise SpoolFullError(batch.error)

    def _write(self, batch: _Batch) -> None:
        with self._lock:
            self._batch = _Batch()
        data = b"".join(batch.parts)
        try:
            if self._end - self._starts[-1] >= self._segment:
                self._begin_segment()
            _write_all(self._file, data)
            os.fdatasync(self._file)
        except OSError as error:
            batch.error = f"the node's disk refuses them: {error.strerror or error}"
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self._end - self._starts[-1])
        batch.is_done = True
        with self._grown:
            if batch.error:
                self._pending -= len(data)
            else:
                self._end += len(data)
                self._grown.notify_all()

    def _begin_segment(self) -> None:
        file = self._open(self._end)
        os.close(self._file)
        self._file = file
        with self._lock:
            self._starts.append(self._end)

    def _open(self, start: int) -> int:
        path = self._path(start)
        is_new = not os.path.exists(path)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        if is_new:
            _sync_folder(self._folder)
        return file

    def _cut_tail(self) -> int:
        """Removes the text after the last complete line of the newest segment; returns its size."""
        end = 0
        with open(self._path(self._starts[-1]), "rb") as file:
            for line in file:
                try:
                    if line.endswith(b"\n"):
                        decode_record(line)
                        end += len(line)
                        continue
                except ValueError:
                    pass
                break
        os.ftruncate(self._file, end)
        return end

    # --- reading --------------------------------------------------------------------------------------------------
    def read(self, offset: int, max_bytes: int) -> bytes:
        """Returns complete lines from this offset on, at least one if there is one. Raises OSError."""
        with self._lock:
            starts, end = list(self._starts), self._end
        begin = max((start for start in starts if start <= offset), default=starts[0])
        following = min((start for start in starts if start > offset), default=end)
        with open(self._path(begin), "rb") as file:
            file.seek(offset - begin)
            piece = file.read(min(max_bytes, min(following, end) - offset))
            whole = piece[: piece.rfind(b"\n") + 1]
            return whole or (piece and piece + file.readline())

    def records(self, offset: int = 0) -> Iterator[Spooled]:
        """Yields the records from this offset on, or from the oldest remaining line. Raises OSError."""
        offset = max(offset, self.start)
        while offset < self.end and (piece := self.read(offset, 1 << 20)):
            yield from spooled(piece, offset)
            offset += len(piece)

    def wait_beyond(self, offset: int, timeout_s: float | None = None) -> bool:
        """Waits for lines beyond this offset; returns False on a timeout, or if the spool was closed."""
        with self._grown:
            self._grown.wait_for(lambda: self._end > offset or self._is_closed, timeout_s)
            return self._end > offset

    def release(self, offset: int) -> None:
        """Releases the lines before this offset, which the server has acknowledged."""
        with self._lock:
            self._released = max(self._released, offset)
            ended = [start for start, end in pairwise(self._starts) if end <= offset - self._kept]
            self._starts = self._starts[len(ended) :]
        for start in ended:
            with contextlib.suppress(OSError):
                os.unlink(self._path(start))

    def close(self) -> None:
        """Ends the waiting of readers."""
        with self._grown:
            self._is_closed = True
            self._grown.notify_all()

    def _path(self, start: int) -> str:
        return f"{self._folder}/{SEGMENT.format(start)}"


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _sync_folder(folder: str) -> None:
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
