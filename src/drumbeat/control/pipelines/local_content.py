"""What tells the content of an input that nodes use in place, where the server's machine has it too."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path


def content_key(place: str) -> str:
    """Returns the SHA-256 of a path here and of the paths, sizes and times of change of its files.

    The path is a part of it: sizes and times tell that a file is still the same, not that two files are alike.
    Raises OSError where a file or folder is absent or can't be read.
    """
    facts = hashlib.sha256()
    for fact in _facts(place):
        facts.update(os.fsencode("\0".join(fact)) + b"\0\0")
    return facts.hexdigest()


def _facts(place: str) -> Iterator[tuple[str, ...]]:
    status = Path(place).stat()
    if not stat.S_ISDIR(status.st_mode):
        yield _file(place, status)
        return
    yield (place, "folder")
    real = os.path.realpath(place)
    first_paths = {real: place}  # By where links lead: a folder that several lead to, or around to, is read once.
    folders = [(place, real)]
    while folders:
        folder, real = folders.pop()
        with os.scandir(folder) as scan:
            entries = sorted(scan, key=lambda one: one.name)
        for entry in entries:
            status = entry.stat()
            if not stat.S_ISDIR(status.st_mode):
                yield _file(entry.path, status)
                continue
            target = os.path.realpath(entry.path) if entry.is_symlink() else f"{real}/{entry.name}"
            first = first_paths.setdefault(target, entry.path)
            yield (entry.path, "folder", first)
            if first == entry.path:
                folders.append((entry.path, target))


def _file(path: str, status: os.stat_result) -> tuple[str, ...]:
    return path, str(status.st_size), str(status.st_mtime_ns)
