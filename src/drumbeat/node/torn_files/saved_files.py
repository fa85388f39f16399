"""The files of a checkpoint folder that an interrupted save may destroy, and their series."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from drumbeat.model.folder_layout import STEP_FOLDER

MAX_FILES = 10_000
"""The maximum number of files of a folder that are checked."""

_TEMPORARY = re.compile(r"(^|[._-])(tmp|temp|part|partial)([._-]|$)", re.IGNORECASE)
"""The name of a file or folder that is renamed when it is complete."""
_NUMBER = re.compile(r"(?<![0-9])(?<!rank)(?<!rank[_=-])(?<!shard)(?<!shard[_=-])(?<!-of-)[0-9]++(?!-of-)")
"""A number in a name, except that of a rank or shard (`model-00001-of-00004.safetensors`)."""


@dataclass(frozen=True)
class FileState:
    """The identity of a file's version."""

    bytes: int
    mtime_ns: int

    @classmethod
    def from_stat(cls, status: os.stat_result) -> FileState:
        """Returns the version with this stat result."""
        return cls(status.st_size, status.st_mtime_ns)


def saved_files(root: str) -> dict[str, FileState]:
    """Returns the files below a folder by their relative paths, without hidden and temporary ones and links."""
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
    except OSError:  # The folder was just removed.
        return
    for entry in listed:
        if entry.name.startswith(".") or _TEMPORARY.search(entry.name):
            continue
        if entry.is_dir(follow_symlinks=False):
            if not STEP_FOLDER.fullmatch(entry.name):
                yield from _walk(root, f"{below}{entry.name}/")
            continue
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            continue
        if stat.S_ISREG(status.st_mode):
            yield f"{below}{entry.name}", FileState.from_stat(status)


def series(path: str) -> str:
    """Returns the series of a file: `epoch-3.pt` and `epoch-4.pt` belong to one."""
    return _NUMBER.sub("#", path)
