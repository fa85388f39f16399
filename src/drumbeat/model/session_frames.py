"""The frames between a user's terminal and a session on a node: kind, length, bytes.

The terminal sends `i` with input (empty = its end), `w` with the terminal's rows and columns, `s` with the number of a
signal. The session sends `o` and `e` with the command's stdout and stderr, and last `x` with its exit code.
"""

from __future__ import annotations

import struct

IN, SIZE, SIGNAL = b"i", b"w", b"s"
OUT, ERR, EXIT = b"o", b"e", b"x"
MAX_BYTES = 1 << 20
"""The longest frame that is accepted."""
_HEAD = struct.Struct("!cI")
_SIZE = struct.Struct("!HH")


def frame(kind: bytes, data: bytes = b"") -> bytes:
    """Returns one frame."""
    return _HEAD.pack(kind, len(data)) + data


def size_frame(rows: int, columns: int) -> bytes:
    """Returns the frame with a terminal's size."""
    return frame(SIZE, _SIZE.pack(min(rows, 0xFFFF), min(columns, 0xFFFF)))


def parse_size(data: bytes) -> tuple[int, int]:
    """Returns the rows and columns in a frame of kind `SIZE`. Raises ValueError."""
    if len(data) != _SIZE.size:
        raise ValueError("not a terminal's size")
    rows, columns = _SIZE.unpack(data)
    return rows, columns


class FrameReader:
    """Splits bytes into complete frames."""

    def __init__(self) -> None:
        self._unread = b""

    def feed(self, data: bytes) -> list[tuple[bytes, bytes]]:
        """Returns the kinds and bytes of the frames that end in `data`. Raises ValueError for a frame too long."""
        self._unread += data
        whole: list[tuple[bytes, bytes]] = []
        while len(self._unread) >= _HEAD.size:
            kind, length = _HEAD.unpack_from(self._unread)
            if length > MAX_BYTES:
                raise ValueError(f"a frame of {length:,} bytes is longer than {MAX_BYTES:,}")
            end = _HEAD.size + length
            if len(self._unread) < end:
                break
            whole.append((kind, self._unread[_HEAD.size : end]))
            self._unread = self._unread[end:]
        return whole
