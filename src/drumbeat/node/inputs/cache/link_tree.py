"""A job's input as its ranks see it: read-only, made of links to files of the cache."""

from __future__ import annotations

import os
import re
import shutil

from drumbeat.model.errors import RefusedError
from drumbeat.model.input_listing import ListedFile, Listing
from drumbeat.node.inputs.cache.files import Files, name_of

_PLAIN = re.compile(r"(?:[\w-][\w.-]{0,200}/)*[\w-][\w.-]{0,200}", re.ASCII)
"""Paths that every disk takes."""
_MAX_PATH = 3000
"""Bytes."""


def check(name: str, listing: Listing) -> None:
    """Raises RefusedError for a listing that no folder can look like."""
    files = {file.path for file in listing.files}
    folders = {above for path in files for above in _above(path)}
    for file in listing.files:
        if why := _why_not(file.path, folders):
            what = f"input {name} has a file named {file.path[:200]!a}, {why}"
            raise RefusedError(what, where=f"inputs.{name}", fix="Rename it in its store, or name a folder without it.")
    if len(files) != len(listing.files) or (listing.is_file and len(files) != 1):
        raise RefusedError(f"input {name} is listed wrongly: a path comes twice", where=f"inputs.{name}")


def _why_not(path: str, folders: set[str]) -> str:
    if path in folders:
        return "which is a folder, too"
    if len(path) <= _MAX_PATH and _PLAIN.fullmatch(path):  # As nearly all are.
        return ""
    if any(part in ("", ".", "..") for part in path.split("/")) or "\0" in path:
        return "which can't be a path on a node"
    if any(len(os.fsencode(part)) > 255 for part in path.split("/")) or len(os.fsencode(path)) > _MAX_PATH:
        return "which is too long for a node's disk"
    return ""


def _above(path: str) -> list[str]:
    """Yields the folders above a path."""
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def fresh(place: str) -> str:
    """Returns an empty folder to build in, beside the final one; the remains of an interrupted build are removed."""
    part = f"{place}.part"
    remove(part)
    return part


def remove(place: str) -> None:
    """Takes an input away, read-only as it is."""
    if os.path.isdir(place) and not os.path.islink(place):
        for folder, _, _ in os.walk(place):
            os.chmod(folder, 0o700)
        shutil.rmtree(place)
    elif os.path.lexists(place):
        os.unlink(place)


def build(files: Files, listing: Listing, place: str) -> None:
    """Puts the input at `place`, which isn't there. All of its files are in the cache."""
    if listing.is_file:
        _link(files, listing.files[0], place)
        return
    os.mkdir(place, 0o755)
    folders = sorted({above for file in listing.files for above in _above(file.path)})
    for folder in folders:
        os.mkdir(f"{place}/{folder}", 0o755)
    for file in listing.files:
        _link(files, file, f"{place}/{file.path}")
    for folder in reversed(folders):
        os.chmod(f"{place}/{folder}", 0o555)  # noqa: S103 (the tree is read-only)
    os.chmod(place, 0o555)  # noqa: S103 (as above)


def _link(files: Files, file: ListedFile, place: str) -> None:
    """Makes a hard link, or a symbolic one if a hard link is impossible."""
    source = files.place(name_of(file))
    try:
        os.link(source, place)
    except OSError:
        os.stat(source)  # It exists: only this kind of link is refused.
        os.symlink(source, place)
