"""Whole files by their key. They are put here by rename, so what is here is whole; what was changed here isn't used."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass

from drumbeat.protocol.listing import ListedFile

_NAME = re.compile(r"[0-9a-f]{64}", re.ASCII)
MARKS = ".done"
"""After the name of a part: which of its pieces are there."""
_MARK_NS = 1_000_000_000 * 10**9
"""The time of change that a file here has: another one says that somebody wrote into it."""


@dataclass(frozen=True)
class Kept:
    """A whole file of the cache. used_at: by the machine's clock, in ns."""

    name: str
    size: int
    used_at: int


def name_of(file: ListedFile) -> str:
    """What its content is called here."""
    return file.key if _NAME.fullmatch(file.key) else hashlib.sha256(file.key.encode()).hexdigest()


class Files:
    """The cache in `folder`."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        for part in ("files", "parts", "pins"):
            os.makedirs(os.path.join(folder, part), mode=0o700, exist_ok=True)

    def place(self, name: str) -> str:
        """Where it lies when it is whole."""
        return os.path.join(self.folder, "files", name[:2], name)

    def part(self, name: str) -> str:
        """Where it grows."""
        return os.path.join(self.folder, "parts", name)

    def has(self, name: str, size: int) -> bool:
        """Whether it is there as it was put there. One that isn't any more is taken out of the way."""
        try:
            found = os.stat(self.place(name))
        except OSError:
            return False
        if found.st_size == size and found.st_mtime_ns == _MARK_NS:
            return True
        self.remove(name)
        return False

    def touch(self, name: str) -> None:
        """It is used now."""
        with contextlib.suppress(FileNotFoundError):
            os.utime(self.place(name), ns=(time.time_ns(), _MARK_NS))

    def take_in(self, descriptor: int, part: str, name: str) -> None:
        """Makes a file out of a part whose bytes are right, on the disk when this returns."""
        os.fchmod(descriptor, 0o444)
        os.utime(descriptor, ns=(time.time_ns(), _MARK_NS))
        os.fsync(descriptor)
        place = self.place(name)
        os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
        os.rename(part, place)

    def remove(self, name: str) -> None:
        """Takes it away; who has a link to it keeps it."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.place(name))

    def all(self) -> Iterator[Kept]:
        """Every whole file."""
        with os.scandir(os.path.join(self.folder, "files")) as folders:
            for folder in folders:
                yield from _kept(folder.path)

    def parts(self) -> dict[str, int]:
        """What grows here, and the bytes of disk that it takes."""
        found: dict[str, int] = {}
        with os.scandir(os.path.join(self.folder, "parts")) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    if _NAME.fullmatch(entry.name):
                        found[entry.name] = entry.stat().st_blocks * 512
        return found

    def sweep(self) -> None:
        """Removes the marks of parts that became whole files just before their process was killed."""
        folder = os.path.join(self.folder, "parts")
        names = set(os.listdir(folder))
        for name in names:
            if name.endswith(MARKS) and name.removesuffix(MARKS) not in names:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(os.path.join(folder, name))


def _kept(folder: str) -> Iterator[Kept]:
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):
                found = entry.stat()
                yield Kept(entry.name, found.st_size, found.st_atime_ns)
