"""The names of partial downloads, which later runs find again: one for each file and version.

A download goes on behind what has come in `job_downloads.py` (files of a job) and `store_transfers.py` (datastores).
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

MAX_NAME_BYTES = 200
"""Bytes of a file's name in its partial's; a disk counts a name's bytes, not its letters, and takes 255."""
_PARTIAL = re.compile(r"\.(.+)\.[0-9a-f]{12}\.part", re.DOTALL)


def partial_path(to: Path, version: str) -> Path:
    """Where the beginning of this version of the file is kept. version: 12 hex digits."""
    return to.with_name(f".{_shown(to.name)}.{version}.part")


def _shown(name: str) -> str:
    """The name, or as much as there is room for, with a hash of all of it: other names may begin the same."""
    encoded = os.fsencode(name)
    if len(encoded) <= MAX_NAME_BYTES:
        return name
    return f"{encoded[: MAX_NAME_BYTES - 13].decode(errors='ignore')}~{hashlib.sha256(encoded).hexdigest()[:12]}"


def clear(places: Iterable[Path]) -> None:
    """Removes what is left beside files that are whole: parts of versions that they had before."""
    whole = set(places)
    by_folder: dict[Path, set[str]] = defaultdict(set)
    for place in whole:
        by_folder[place.parent].add(_shown(place.name))
    for folder, names in by_folder.items():
        with suppress(OSError):
            _clear(folder, names, whole)


def _clear(folder: Path, names: set[str], whole: set[Path]) -> None:
    for file in folder.iterdir():
        partial = _PARTIAL.fullmatch(file.name)
        if partial and partial[1] in names and file not in whole:
            file.unlink()
