"""Validates paths from requests, which must stay in their folder. All modules of this package use it."""

from __future__ import annotations

import os
from pathlib import Path

from drumbeat.model.errors import ForbiddenError
from drumbeat.model.logs import LogName
from drumbeat.model.wire import is_utf8

LONGEST_NAME = 255
LONGEST_PATH = 3072
"""Maximum length in bytes. Linux allows 255 for a name and 4,096 for a path, which includes our own folders."""


def split_path(path: str) -> tuple[str, ...]:
    """Splits a relative path. Raises ForbiddenError unless each part is a plain name."""
    parts = tuple(path.split("/"))
    if len(os.fsencode(_encodable(path))) > LONGEST_PATH:
        raise ForbiddenError(f"a path of {len(path):,} characters is too long", where=_shown(path))
    for part in parts:
        _require_plain(part, path)
    return parts


def inside(folder: Path, path: str) -> Path:
    """Joins a path to a folder. Raises ForbiddenError if it, or a symbolic link in it, leaves the folder."""
    place = folder.joinpath(*split_path(path))
    real, allowed = os.path.realpath(place), os.path.realpath(folder)
    if real != str(place) and not real.startswith(allowed + os.sep):
        raise ForbiddenError("the path leaves its folder through a symbolic link", where=_shown(path))
    return place


def one_name(name: str) -> str:
    """Checks the name of a folder. Raises ForbiddenError."""
    if "/" in name:
        raise ForbiddenError("a name can't contain a slash", where=_shown(name))
    (part,) = split_path(name)
    if part.startswith("."):
        raise ForbiddenError("a name can't begin with a dot", where=_shown(name))
    return part


def log_at(path: str) -> LogName:
    """Parses the path of a log. Raises ForbiddenError."""
    try:
        return LogName.from_path(path)
    except ValueError:
        what = "the path of a log is logs/ATTEMPT.ROUND/NODE/RANK.log, or …/node.log"
        raise ForbiddenError(what, where=_shown(path)) from None


def _require_plain(part: str, path: str) -> None:
    if part in ("", ".", "..") or "\0" in part:
        raise ForbiddenError("a path must be relative, without `..`, empty parts or NUL", where=_shown(path))
    if len(os.fsencode(part)) > LONGEST_NAME:
        raise ForbiddenError(f"a name of {len(part):,} characters is too long", where=_shown(path))


def _encodable(path: str) -> str:
    if not is_utf8(path):
        raise ForbiddenError("a path must be Unicode text", where=_shown(path))
    return path


def _shown(path: str) -> str:
    """Returns a path for messages."""
    return ascii(path[:80] + "…" if len(path) > 80 else path)[1:-1]
