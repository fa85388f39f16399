"""Standard output and error on a disk that may be full: what doesn't fit is dropped, and no request fails for it."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


class LossyFile(io.RawIOBase):
    """A file descriptor whose writes succeed on a full disk, too."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        return self._descriptor

    def writable(self) -> bool:
        return True

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return os.write(self._descriptor, data)
        except OSError as error:
            if error.errno not in _FULL:
                raise
            return memoryview(data).nbytes


def keep_printing() -> None:
    """Has `print` succeed on a full disk: a replica goes on to answer, as clients don't wait for its logs."""
    sys.stdout, sys.stderr = _lossy(sys.stdout), _lossy(sys.stderr)


def _lossy(stream: TextIO) -> TextIO:
    """Returns a stream to the same place, buffered in the same way."""
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    raw = LossyFile(stream.fileno())
    return io.TextIOWrapper(
        raw if stream.write_through else io.BufferedWriter(raw),  # pyright: ignore[reportArgumentType] (as open() does)
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
