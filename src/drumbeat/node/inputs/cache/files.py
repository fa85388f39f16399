"""Whole files by their key. They are put here by rename, so what is here is whole; what was changed here isn't used.

A file's time of change says what it is believed by: nothing waits for the disk while files come, so at first a file is
only as good as this start of the machine. `settle` has the disk take them all, and says so in each of them.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from drumbeat.model.input_listing import ListedFile
from drumbeat.node.host.machine import boot
from drumbeat.node.platform import disk, locks

_NAME = re.compile(r"[0-9a-f]{64}", re.ASCII)
MARKS = ".done"
"""After the name of a part: which of its pieces are there."""
_SETTLED_NS = 1_000_000_000 * 10**9
"""The time of change of a file that is on the disk."""
_USE_NS = 10 * 10**9
"""How exactly it is noted when a file was used last."""


@dataclass(frozen=True)
class CachedFile:
    """A complete file of the cache."""

    name: str
    size: int
    used_at: int
    """In ns, by the machine's clock."""


def name_of(file: ListedFile) -> str:
    """Returns the name of a file's content in the cache."""
    return file.key if _NAME.fullmatch(file.key) else hashlib.sha256(file.key.encode()).hexdigest()


class Files:
    """The cache in `folder`."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        for part in ("files", "parts", "pins"):
            os.makedirs(os.path.join(folder, part), mode=0o700, exist_ok=True)

    def place(self, name: str) -> str:
        """Returns the path of a complete file."""
        return f"{self.folder}/files/{name[:2]}/{name}"

    def part(self, name: str) -> str:
        """Returns the path of a file that is being fetched."""
        return f"{self.folder}/parts/{name}"

    def take_part(self, name: str, *, create: bool = True) -> int | None:
        """Its part, locked, as `locks.take` gives it."""
        path = self.part(name)
        try:
            return locks.take(path, create=create)
        except PermissionError:  # Older versions left parts read-only when they were killed.
            with contextlib.suppress(FileNotFoundError):
                os.chmod(path, 0o600)
            return locks.take(path, create=create)

    def has(self, name: str, size: int) -> bool:
        """Whether it is there as it was put there.

        One that isn't may be another machine's, of those that share this folder, which has put it there just now.
        """
        return self._unchanged_size(name) == size

    def is_unchanged(self, name: str) -> bool:
        """Whether it is there as it was put there, whatever its size."""
        return self._unchanged_size(name) is not None

    def _unchanged_size(self, name: str) -> int | None:
        try:
            status = os.stat(self.place(name))
        except OSError:
            return None
        return status.st_size if status.st_mtime_ns in (_SETTLED_NS, _fresh_ns()) else None

    def touch(self, name: str) -> None:
        """Marks a file as used now and read-only, even if the process that made it was killed before it could."""
        with contextlib.suppress(FileNotFoundError):
            place, now = self.place(name), time.time_ns()
            status = os.stat(place)
            if now - status.st_atime_ns > _USE_NS:
                os.utime(place, ns=(now, status.st_mtime_ns))
            if status.st_mode & 0o222:
                os.chmod(place, 0o444)

    def take_in(self, descriptor: int, part: str, name: str) -> None:
        """Makes a file out of a part whose bytes are right. Raises OSError."""
        os.utime(descriptor, ns=(time.time_ns(), _fresh_ns()))
        os.close(os.dup(descriptor))  # A network file system reports only now what it couldn't write.
        place = self.place(name)
        try:
            os.rename(part, place)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
            os.rename(part, place)
        os.fchmod(descriptor, 0o444)  # Not before: a read-only part can be neither claimed nor resumed.

    def settle(self, names: Iterable[str]) -> None:
        """Flushes all that was written to the disk. Raises OSError."""
        disk.settle(self.folder)
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                status = os.stat(self.place(name))
                if status.st_mtime_ns == _fresh_ns():
                    os.utime(self.place(name), ns=(status.st_atime_ns, _SETTLED_NS))
                if status.st_mode & 0o222:  # As in `touch`.
                    os.chmod(self.place(name), 0o444)

    def remove(self, name: str) -> None:
        """Takes it away; who has a link to it keeps it."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.place(name))

    def all(self) -> Iterator[CachedFile]:
        """Yields every complete file."""
        with os.scandir(os.path.join(self.folder, "files")) as folders:
            for folder in folders:
                yield from _kept(folder.path)

    def parts(self) -> dict[str, int]:
        """Returns the partial files, and the bytes of disk that each takes."""
        sizes: dict[str, int] = {}
        with os.scandir(os.path.join(self.folder, "parts")) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    if _NAME.fullmatch(entry.name):
                        sizes[entry.name] = entry.stat().st_blocks * 512
        return sizes

    def sweep(self) -> None:
        """Removes the marks of parts that became whole files just before their process was killed."""
        folder = os.path.join(self.folder, "parts")
        names = set(os.listdir(folder))
        for name in names:
            if name.endswith(MARKS) and name.removesuffix(MARKS) not in names:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(os.path.join(folder, name))


@cache
def _fresh_ns() -> int:
    """Returns the modification time of files that may not be on disk yet; it is different after each start of the
    machine.
    """
    return _SETTLED_NS + 1 + int(hashlib.sha256(boot().encode()).hexdigest()[:12], 16)


def _kept(folder: str) -> Iterator[CachedFile]:
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):
                status = entry.stat()
                yield CachedFile(entry.name, status.st_size, status.st_atime_ns)
