"""Atomic writes to a disk, and the translation of a disk's errors to ours."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from drumbeat.model.errors import ConflictError, DrumbeatError, ForbiddenError, StorageError
from drumbeat.model.sparse_files import write_at

_REFUSALS: dict[int, tuple[type[DrumbeatError], str, str]] = {
    errno.ENOSPC: (StorageError, "the disk is full", "Make room on it; the rest is sent again."),
    errno.EDQUOT: (StorageError, "this user's quota on the disk is used up", "Make room, or have the quota raised."),
    errno.EFBIG: (StorageError, "the file is too big for the disk's file system", "Use a folder on another disk."),
    errno.EACCES: (StorageError, "this user may not write there", "Give it the right to."),
    errno.EPERM: (StorageError, "this user may not write there", "Give it the right to."),
    errno.EROFS: (StorageError, "the disk is read-only", "Mount it for writing, or use another folder."),
    errno.EIO: (StorageError, "the disk failed", "Look at the system's log for errors of this disk."),
    errno.ENOENT: (StorageError, "the folder has gone", "See what removed it."),
    errno.EMFILE: (StorageError, "this process has too many files open", "Raise its limit (ulimit -n)."),
    errno.ENFILE: (StorageError, "the machine has too many files open", "Raise its limit (fs.file-max)."),
    errno.ENAMETOOLONG: (ForbiddenError, "the path is too long", "Use a shorter one."),
    errno.ELOOP: (ForbiddenError, "the path goes through a link", ""),
    errno.ENOTDIR: (ConflictError, "a file is where a folder should be", "Use another name for one of the two."),
    errno.EISDIR: (ConflictError, "a folder is where a file should be", "Use another name for one of the two."),
    errno.EEXIST: (ConflictError, "a file is where a folder should be", "Use another name for one of the two."),
    errno.ENOTEMPTY: (ConflictError, "a folder is where a file should be", "Use another name for one of the two."),
}


@contextmanager
def refusals(where: Path) -> Generator[None]:
    """Turns an OSError into our error for it."""
    try:
        yield
    except OSError as error:
        raise as_our_error(error, where) from error


def as_our_error(error: OSError, where: Path) -> DrumbeatError:
    """Returns our error for an OSError. where: the file, if the error has none."""
    place = str(error.filename or where)
    kind, what, fix = _REFUSALS.get(error.errno or 0, (StorageError, f"the disk refused: {error.strerror}", ""))
    return kind(what, where=place, fix=fix)


RESERVE = 64 << 20
"""Bytes of a disk that logs, outputs and snapshots leave free, so that the database can still record events."""
_PART = 20
"""The fraction of a small disk that they leave free, as a divisor."""
LOCK_S, _LOCK_PAUSE_S = 8.0, 0.05
"""Timeout for a file that another process has locked (as for a lock of the database), and the time between tries."""


def require_room(folder: Path, kept_for: str = "the database", size: int = 0) -> None:
    """Raises StorageError if the disk of a folder has no room for `size` bytes beside the reserve."""
    disk = os.statvfs(folder)
    free, reserve = disk.f_bavail * disk.f_frsize, min(RESERVE, disk.f_blocks * disk.f_frsize // _PART)
    if free - size < reserve:
        what = f"the disk has {free >> 20:,} MiB left, and the last {reserve >> 20:,} MiB are reserved for {kept_for}"
        raise StorageError(what, where=str(folder), fix="Make room on it; the rest is sent again.")


def fitting(folder: Path, pieces: Iterable[bytes], kept_for: str = "the database") -> Iterator[bytes]:
    """Yields the pieces of a file while the disk has room for each. Raises StorageError."""
    for piece in pieces:
        require_room(folder, kept_for, len(piece))
        yield piece


@contextmanager
def locked(place: Path, flags: int) -> Generator[int]:
    """Opens or creates a file, and locks it against all threads and processes until the end of the block.

    Raises StorageError if another process doesn't release it in time.
    """
    descriptor = os.open(place, flags | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        _lock(descriptor, place)
        yield descriptor
    finally:
        os.close(descriptor)


def _lock(descriptor: int, place: Path) -> None:
    """Locks like `flock` with a timeout, because a server that is suspended keeps its locks."""
    deadline, pause_s = time.monotonic() + LOCK_S, 0.001
    while True:
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        if time.monotonic() > deadline:
            what = f"another server has locked a file for {LOCK_S:g} s"
            raise StorageError(what, where=str(place), fix="This is retried. Check for a suspended server process.")
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _LOCK_PAUSE_S)


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    """Writes all bytes to the end of a file that is open for appending."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def put_whole(place: Path, pieces: Iterable[bytes], aside: Path) -> None:
    """Writes or replaces a file atomically and durably.

    aside: a temporary path on the same disk, which is removed on failure.
    """
    try:
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        try:
            offset = 0
            for piece in pieces:
                write_at(descriptor, piece, offset)
                offset += len(piece)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        aside.replace(place)
    except BaseException:
        with suppress(OSError):
            aside.unlink()
        raise
    sync_folder(place.parent)


def sync_folder(folder: Path) -> None:
    """Flushes the names in a folder to the disk. The folder may be a symbolic link."""
    _sync(folder, os.O_DIRECTORY)


def sync_file(place: Path) -> None:
    """Flushes a file to the disk."""
    _sync(place, os.O_NOFOLLOW)


def _sync(place: Path, flags: int) -> None:
    descriptor = os.open(place, os.O_RDONLY | flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
