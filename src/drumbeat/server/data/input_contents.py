"""Fingerprints of a job's inputs at its start, stored among the job's files for comparisons."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from drumbeat.model.input_listing import Listing
from drumbeat.model.plan import InputPlan
from drumbeat.model.plurals import counted

MAX_READ = 64 << 20
"""Maximum size of an input whose files are read, in bytes; for larger ones, sizes and modification times are hashed."""
MAX_FILES = 100_000
"""Maximum number of files of an input that are hashed."""


def content_path(planned: InputPlan) -> str:
    """Returns the path of an input's fingerprint in its job's folder: its listing or a sentence."""
    return f"inputs/{planned.name}.json" if planned.is_remote else f"inputs/{planned.name}.content"


def describe_listing(listing: Listing) -> str:
    """Returns the number of files of a listing, their size, and a hash of their paths and contents."""
    facts = hashlib.sha256()
    for file in sorted(listing.files, key=lambda one: one.path):
        facts.update(f"{file.path}\0{file.size}\0{file.sha256 or file.key}\0".encode(errors="surrogateescape"))
    return _describe(len(listing.files), sum(file.size for file in listing.files), facts.hexdigest(), "")


def local_content(place: str, is_visible: Callable[[str], bool]) -> str:
    """Returns the same for a file or folder of this machine. Raises OSError, also if nodes can't see it.

    Above MAX_READ, sizes and modification times are hashed instead, and the sentence says so.
    """
    if not is_visible(place):
        raise FileNotFoundError(place)
    files = list(_files(Path(place)))
    size = sum(status.st_size for _, status in files)
    is_read = size <= MAX_READ and len(files) < MAX_FILES
    facts = hashlib.sha256()
    for path, status in files:
        fingerprint = _sha256(path) if is_read else f"{status.st_size} {status.st_mtime_ns}"
        facts.update(os.fsencode(f"{os.path.relpath(path, place)}\0{fingerprint}\0"))
    return _describe(len(files), size, facts.hexdigest(), "" if is_read else ", by sizes and times")


def _describe(count: int, size: int, digest: str, how: str) -> str:
    return f"{counted(count, 'file')}, {size:,} bytes, {digest[:12]}{how}"


def _files(place: Path) -> Iterator[tuple[Path, os.stat_result]]:
    status = place.stat()
    if not stat.S_ISDIR(status.st_mode):
        yield place, status
        return
    count = 0
    for folder, folders, names in os.walk(place):
        folders.sort()
        for name in sorted(names):
            path = Path(folder, name)
            status = path.stat()
            if stat.S_ISREG(status.st_mode):
                yield path, status
                count += 1
                if count >= MAX_FILES:
                    return


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
