"""Holes of files, which read as zeros and take no space: found where a file is read, kept where one is written.

Calls move the position of the file, `append` alone to where its caller expects it.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

BLOCK = 4096
"""Bytes of zeros that become a hole, as most file systems keep them."""
MIN_HOLE = 1 << 20
"""Bytes of a hole that isn't sent as zeros."""
MAX_HOLES = 200
"""The most holes of one file that are announced to its reader; the others are sent as zeros."""
_ZEROS = bytes(BLOCK)
_PIECE = 1 << 20


def is_sparse(status: os.stat_result) -> bool:
    """Whether a file takes less space than its size."""
    return status.st_blocks * 512 < status.st_size


def hole_length(descriptor: int, offset: int, size: int) -> int:
    """Returns how many bytes of a hole begin at this offset of a file of this size; 0 = data is there, or its end.

    size: as far as it counts; the file may have been cut off meanwhile.
    """
    try:
        return max(0, min(os.lseek(descriptor, offset, os.SEEK_DATA), size) - offset)
    except OSError as error:  # ENXIO: there is no data any more. Others: the file system knows no holes.
        return max(0, min(size, os.fstat(descriptor).st_size) - offset) if error.errno == errno.ENXIO else 0


def large_holes(descriptor: int, size: int) -> list[tuple[int, int]]:
    """Returns start and end of the largest holes of a file, MAX_HOLES at most, in order."""
    holes: list[tuple[int, int]] = []
    at = 0
    while at < size:
        end = at + hole_length(descriptor, at, size)
        if end - at >= MIN_HOLE:
            holes.append((at, end))
        if end >= size:
            break
        try:
            at = os.lseek(descriptor, end, os.SEEK_HOLE)
        except OSError:
            break
    return sorted(sorted(holes, key=lambda hole: hole[0] - hole[1])[:MAX_HOLES])


def runs(data: bytes) -> Iterator[tuple[int, int, bool]]:
    """Yields start and end of each stretch of the data, and whether it is whole blocks of zeros."""
    start, was_zero = 0, False
    if _ZEROS in data:
        for at in range(0, len(data), BLOCK):
            is_zero = data[at : at + BLOCK] == _ZEROS
            if is_zero != was_zero:
                if at > start:
                    yield start, at, was_zero
                start, was_zero = at, is_zero
    if len(data) > start:
        yield start, len(data), was_zero


def write_at(descriptor: int, data: bytes, offset: int) -> None:
    """Writes all of the data at this offset; blocks of zeros stay holes where nothing was written before."""
    for start, end, is_zero in runs(data):
        if is_zero and _is_unwritten(descriptor, offset + start, offset + end):
            extend(descriptor, offset + end)
            continue
        rest = memoryview(data)[start:end]
        while rest:
            rest = rest[os.pwrite(descriptor, rest, offset + end - len(rest)) :]


def _is_unwritten(descriptor: int, start: int, end: int) -> bool:
    """Whether the file has no data between these offsets: a hole, or nothing yet."""
    written = min(end, os.fstat(descriptor).st_size)
    return start >= written or hole_length(descriptor, start, written) == written - start


def append(file: BinaryIO, data: bytes) -> None:
    """Writes all of the data where the file stands, as `write_at` does, and moves on behind it."""
    at = file.tell()
    write_at(file.fileno(), data, at)
    file.seek(at + len(data))


def extend(descriptor: int, size: int) -> None:
    """Extends a file to at least this size, by a hole."""
    if os.fstat(descriptor).st_size < size:
        os.ftruncate(descriptor, size)


_PUNCH_HOLE, _KEEP_SIZE = 2, 1


def drop_beginning(descriptor: int, size: int) -> None:
    """Gives back the space of a file's first bytes, which read as zeros then. Raises OSError, also where the file
    system or the Python can't.
    """
    if size <= 0:
        return
    try:
        import ctypes  # Not every Python has it, and most processes need none.

        fallocate = ctypes.CDLL(None, use_errno=True).fallocate
    except (ImportError, AttributeError) as error:
        raise OSError(errno.EOPNOTSUPP, f"no call for holes: {error}") from None
    # On Linux with 64 bits, off_t has 64 with every C library.
    fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    if fallocate(descriptor, _PUNCH_HOLE | _KEEP_SIZE, 0, size):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def copy(source: str, target: str) -> None:
    """Copies a file with its times and rights, as Python's own copy does, and keeps its holes."""
    if not is_sparse(Path(source).stat()):
        shutil.copy2(source, target)
        return
    with Path(source).open("rb") as one, Path(target).open("wb") as other:
        size, at = os.fstat(one.fileno()).st_size, 0
        while at < size:
            at += hole_length(one.fileno(), at, size)
            piece = os.pread(one.fileno(), min(_PIECE, size - at), at)
            if not piece:
                break
            write_at(other.fileno(), piece, at)
            at += len(piece)
        extend(other.fileno(), at)
    shutil.copystat(source, target)
