"""Prepares the standard files: open, written completely, in any encoding, quiet when their reader has gone."""

from __future__ import annotations

import io
import os
import select
import sys
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class CompleteWriter(io.FileIO):
    """An unbuffered file whose `write` returns once all of the data is written."""

    def write(self, data: ReadableBuffer, /) -> int:
        """Writes all of the data: a signal, or Ctrl-Z and `fg`, may interrupt a write to a pipe."""
        rest = memoryview(data).cast("B")
        size = len(rest)
        while rest:
            written = super().write(rest)
            if written is None:  # Another program has made the pipe non-blocking.
                select.select([], [self], [])
            rest = rest[written or 0 :]
        return size


def prepare() -> None:
    """Prepares the standard files before anything is written."""
    _open_what_is_closed()
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            setattr(sys, name, _prepared(cast("io.TextIOWrapper", stream)))


def _prepared(stream: io.TextIOWrapper) -> io.TextIOWrapper:
    if not isinstance(stream.buffer, io.RawIOBase):
        stream.reconfigure(errors="backslashreplace")
        return stream
    # Python's own stream for PYTHONUNBUFFERED ignores partial writes.
    file = CompleteWriter(stream.fileno(), "wb", closefd=False)
    return io.TextIOWrapper(file, encoding=stream.encoding, errors="backslashreplace", write_through=True)


def _open_what_is_closed() -> None:
    """Opens standard files that are closed (`>&-`): the next file opened would take their place."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115, PTH123 - it stays open


def flush_quietly() -> None:
    """Flushes without an error if the reader has gone, as the interpreter's final flush would raise."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
