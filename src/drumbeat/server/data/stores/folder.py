"""Folders on the server's machine, local or mounted."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from drumbeat.model.api.data import Written
from drumbeat.model.errors import (
    ConflictError,
    ForbiddenError,
    NotFoundError,
    RefusedError,
    StorageError,
    UnreachableError,
)
from drumbeat.model.input_listing import Link
from drumbeat.model.sparse_files import write_at
from drumbeat.server.data.stores.backend_contract import (
    PIECE,
    Counted,
    StoreEntry,
    StoreLibrary,
    Trouble,
    Wanted,
    asked,
    changed,
    refused,
)
from drumbeat.server.data.stores.partial_writes import PARTIAL_SUFFIX
from drumbeat.server.home_folder.atomic_files import fitting, sync_folder

_TROUBLES: dict[int, Trouble] = {
    errno.ENOENT: Trouble(NotFoundError, "there is nothing there", "Check the path."),
    errno.ENOTDIR: Trouble(NotFoundError, "a part of the path is a file", "Check the path."),
    errno.EISDIR: Trouble(ConflictError, "it is a folder", "Name a file in it."),
    errno.EEXIST: Trouble(ConflictError, "a file is where a folder should be", "Use another name for one of the two."),
    errno.ENOTEMPTY: Trouble(ConflictError, "a folder is where a file should be", "Use another name."),
    errno.EACCES: Trouble(ForbiddenError, "the server's user has no right to", "Give it the right."),
    errno.EPERM: Trouble(ForbiddenError, "the server's user has no right to", "Give it the right."),
    errno.EROFS: Trouble(ForbiddenError, "the disk is read-only", "Mount it for writing, or use another datastore."),
    errno.ELOOP: Trouble(ForbiddenError, "its symbolic links form a cycle", "Remove one of the links."),
    errno.ENAMETOOLONG: Trouble(RefusedError, "the name is too long for the disk", "Use a shorter one."),
    errno.ENOSPC: Trouble(StorageError, "the disk is full", "Make room on it; nothing of the file was stored."),
    errno.EDQUOT: Trouble(StorageError, "the quota on the disk is used up", "Make room, or have it raised."),
    errno.EFBIG: Trouble(StorageError, "the file is too big for the disk's file system", "Use another disk."),
    errno.EMFILE: Trouble(UnreachableError, "the server has too many files open", "Raise its limit (ulimit -n)."),
    errno.ENFILE: Trouble(UnreachableError, "the server's machine has too many files open", "Raise fs.file-max."),
    errno.ESTALE: Trouble(UnreachableError, "the share has gone away", "See that its server runs; mount it again."),
    errno.EIO: Trouble(UnreachableError, "the disk or share failed", "Look at the system's log."),
    errno.ETIMEDOUT: Trouble(UnreachableError, "the share doesn't answer", "See that its server runs."),
    errno.EHOSTDOWN: Trouble(UnreachableError, "the share doesn't answer", "See that its server runs."),
    errno.ENOTCONN: Trouble(UnreachableError, "the share has gone away", "Mount it again."),
}


def _judge(error: BaseException) -> Trouble:
    number = error.errno or 0 if isinstance(error, OSError) else 0
    return _TROUBLES.get(number, Trouble(StorageError, f"the disk refused ({os.strerror(number)})"))


class FolderBackend:
    """The backend of a folder. Symbolic links in it mustn't point out of it."""

    knows_folders = True
    shows_partial_writes = True

    def __init__(self, root: Path, title: str) -> None:
        self._root, self._title = root.expanduser(), title
        self.address = f"file://{self._root}"

    def close(self) -> None:
        pass

    def files(self, place: str) -> Iterator[StoreEntry]:
        open_ones = [place]
        while open_ones:
            for entry in self.entries(open_ones.pop()):
                if entry.is_folder:
                    open_ones.append(entry.place)
                else:
                    yield entry

    def file(self, place: str) -> StoreEntry:
        with self._asked("read", place):
            path = self._inside(place)
            status = path.stat()
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.EISDIR if stat.S_ISDIR(status.st_mode) else errno.EACCES, "")
            return _entry_from_status(place, status)

    def entries(self, place: str) -> Iterator[StoreEntry]:
        with self._asked("list", place):
            names = sorted(path.name for path in self._inside(place).iterdir())
        for name in names:
            below = f"{place}/{name}" if place else name
            if not name.endswith(PARTIAL_SUFFIX):
                with self._asked("list", below):
                    yield self._entry(below)

    def _entry(self, place: str) -> StoreEntry:
        path = self._inside(place)
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            if path.is_symlink():
                trouble = Trouble(RefusedError, "it is a link to a folder", "Put the folder itself there.")
                raise refused(self._title, "list", place, trouble)
            return StoreEntry(place, is_folder=True)
        if not stat.S_ISREG(status.st_mode):
            trouble = Trouble(RefusedError, "it is neither a file nor a folder", "Take it out of the data.")
            raise refused(self._title, "list", place, trouble)
        return _entry_from_status(place, status)

    def link(self, wanted: Wanted, lifetime_s: float) -> Link | None:
        del wanted, lifetime_s
        return None

    def read(self, wanted: Wanted, offset: int, length: int | None) -> Iterator[bytes]:
        with self._asked("read", wanted.place), self._inside(wanted.place).open("rb", buffering=0) as file:
            self._require_same(wanted, os.fstat(file.fileno()))
            file.seek(offset)
            left = wanted.size - offset if length is None else length
            while left > 0 and (piece := file.read(min(PIECE, left))):
                left -= len(piece)
                yield piece
            self._require_same(wanted, os.fstat(file.fileno()))

    def _require_same(self, wanted: Wanted, status: os.stat_result) -> None:
        if (status.st_size, wanted.tag and _tag(status)) != (wanted.size, wanted.tag):
            raise changed(self._title, wanted.place)

    def write(self, place: str, pieces: Counted, aside: str) -> Written:
        with self._asked("write", place):
            path = self._inside(place)
            path.parent.mkdir(parents=True, exist_ok=True)
            half = path.with_name(aside)
            try:
                tag = _put(half, pieces)
                half.replace(path)
            except BaseException:
                with suppress(OSError):
                    half.unlink()
                raise
            sync_folder(path.parent)
        return Written(place, pieces.seen, pieces.sha256, tag)

    def remove(self, place: str) -> None:
        with self._asked("remove", place):
            self._inside(place).unlink(missing_ok=True)

    def _asked(self, verb: str, place: str) -> AbstractContextManager[None]:
        return asked(self._title, verb, place, StoreLibrary((OSError,)), _judge)

    def _inside(self, place: str) -> Path:
        """Returns the path of a place. Raises ForbiddenError if a symbolic link in it leaves the folder."""
        path = self._root / place
        real, root = os.path.realpath(path), os.path.realpath(self._root)
        if os.path.commonpath((real, root)) != root:
            trouble = Trouble(ForbiddenError, "a link on its way leaves the folder", "Put the files themselves there.")
            raise refused(self._title, "read", place, trouble)
        return path


def _entry_from_status(place: str, status: os.stat_result) -> StoreEntry:
    return StoreEntry(place, status.st_size, _tag(status))


def _tag(status: os.stat_result) -> str:
    return str(status.st_mtime_ns)


def _put(path: Path, pieces: Counted) -> str:
    """Writes a new file durably, and returns its tag."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
    try:
        offset = 0
        for piece in fitting(path.parent, pieces, "the other programs of its machine"):
            write_at(descriptor, piece, offset)
            offset += len(piece)
        os.fsync(descriptor)
        return _tag(os.fstat(descriptor))
    finally:
        os.close(descriptor)
