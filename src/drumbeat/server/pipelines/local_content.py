"""What tells the content of an input that nodes use in place, where the server's machine has it too."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path


def content_key(place: str, is_visible: Callable[[str], bool]) -> str:
    """Returns the SHA-256 of a path here and of the paths, sizes and times of change of its files, and of link targets.

    The path is a part of it: sizes and times tell that a file is still the same, not that two files are alike.
    is_visible: whether nodes have at a path what this machine has there.
    Raises OSError where a file or folder is absent, can't be read, or isn't visible.
    """
    facts = hashlib.sha256()
    for fact in _facts(place, is_visible):
        facts.update(os.fsencode("\0".join(fact)) + b"\0\0")
    return facts.hexdigest()


def _facts(place: str, is_visible: Callable[[str], bool]) -> Iterator[tuple[str, ...]]:
    def require_visible(path: str) -> str:
        if not is_visible(path):
            raise FileNotFoundError(errno.ENOENT, "nodes don't have what the server has there", path)
        return path

    status = Path(require_visible(place)).stat()
    real = require_visible(os.path.realpath(place))
    if not stat.S_ISDIR(status.st_mode):
        yield *_file(place, status), real
        return
    yield (place, "folder", real)
    first_paths = {real: place}  # By where links lead: a folder that several lead to, or around to, is read once.
    folders = [(place, real)]
    while folders:
        folder, real = folders.pop()
        with os.scandir(folder) as scan:
            entries = sorted(scan, key=lambda one: one.name)
        for entry in entries:
            status = entry.stat()
            target = require_visible(os.path.realpath(entry.path)) if entry.is_symlink() else f"{real}/{entry.name}"
            if not stat.S_ISDIR(status.st_mode):
                yield *_file(entry.path, status), target
                continue
            first = first_paths.setdefault(target, entry.path)
            yield (entry.path, "folder", target, first)
            if first == entry.path:
                folders.append((entry.path, target))


def _file(path: str, status: os.stat_result) -> tuple[str, ...]:
    return path, str(status.st_size), str(status.st_mtime_ns)
