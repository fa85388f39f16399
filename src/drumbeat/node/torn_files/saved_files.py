"""The files of a checkpoint folder that ranks may lose by an interrupted save, and which of them belong together."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass

MAX_FILES = 10_000
"""Files of a folder that are looked at; of more, a part."""

_PUBLISHED = re.compile(r"step-\d{12,}")
"""A checkpoint of `drumbeat.train.Checkpoints`, which needs no copies."""
_TEMPORARY = re.compile(r"(^|[._-])(tmp|temp|part|partial)([._-]|$)", re.IGNORECASE)
"""The name of a file or folder that is renamed when it is whole."""
_NUMBER = re.compile(r"(?<![0-9])(?<!rank)(?<!rank[_=-])(?<!shard)(?<!shard[_=-])(?<!-of-)[0-9]++(?!-of-)")
"""A number in a name, but for that of a rank or shard (`model-00001-of-00004.safetensors`)."""


@dataclass(frozen=True)
class FileState:
    """Which version of a file it is."""

    bytes: int
    mtime_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> FileState:
        """Returns the version with this status."""
        return cls(status.st_size, status.st_mtime_ns)


def saved_files(root: str) -> dict[str, FileState]:
    """Returns the files below a folder by their paths in it. Hidden and temporary ones, and links, are left out."""
    files = dict[str, FileState]()
    for path, state in _walk(root, ""):
        files[path] = state
        if len(files) == MAX_FILES:
            break
    return files


def _walk(root: str, below: str) -> Iterator[tuple[str, FileState]]:
    try:
        with os.scandir(f"{root}/{below}") as entries:
            listed = list(entries)
    except OSError:  # It is removed just now.
        return
    for entry in listed:
        if entry.name.startswith(".") or _TEMPORARY.search(entry.name):
            continue
        if entry.is_dir(follow_symlinks=False):
            if not _PUBLISHED.fullmatch(entry.name):
                yield from _walk(root, f"{below}{entry.name}/")
            continue
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            continue
        if stat.S_ISREG(status.st_mode):
            yield f"{below}{entry.name}", FileState.of(status)


def series(path: str) -> str:
    """Returns what the files of different saves have in common: `epoch-3.pt` and `epoch-4.pt` are of one series."""
    return _NUMBER.sub("#", path)
