"""The files that the command line writes to: open, written whole, in any encoding, quiet when their reader has gone."""

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
        """A signal, or Ctrl-Z and `fg`, ends a write to a pipe after a part of it: the rest follows."""
        rest = memoryview(data).cast("B")
        size = len(rest)
        while rest:
            written = super().write(rest)
            if written is None:  # Another program has set the pipe not to block.
                select.select([], [self], [])
            rest = rest[written or 0 :]
        return size


def prepare() -> None:
    """Before anything is written."""
    _open_what_is_closed()
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            setattr(sys, name, _prepared(cast("io.TextIOWrapper", stream)))


def _prepared(stream: io.TextIOWrapper) -> io.TextIOWrapper:
    if not isinstance(stream.buffer, io.RawIOBase):
        stream.reconfigure(errors="backslashreplace")
        return stream
    # Python's own for PYTHONUNBUFFERED doesn't ask how much of a text was written.
    file = CompleteWriter(stream.fileno(), "wb", closefd=False)
    return io.TextIOWrapper(file, encoding=stream.encoding, errors="backslashreplace", write_through=True)


def _open_what_is_closed() -> None:
    """Who starts a program may have closed its standard files (`>&-`); the next file opened would take their place."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115, PTH123 - it stays open


def flush_quietly() -> None:
    """The interpreter's own flush at the end would complain of a reader who has gone."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
