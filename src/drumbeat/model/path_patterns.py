"""Patterns of paths, as the tables of an `MLTable` write them."""

from __future__ import annotations

from fnmatch import fnmatchcase


def is_match(path: str, pattern: str) -> bool:
    """Whether a pattern matches a file: `*` and `?` match within a part of its path, `**` any number of folders."""
    parts = path.split("/")
    covered = {0}
    """The numbers of leading parts of the path that the pattern so far can match."""
    for wanted in pattern.split("/"):
        if wanted == "**":
            covered = set(range(min(covered, default=len(parts) + 1), len(parts) + 1))
        else:
            covered = {count + 1 for count in covered if count < len(parts) and fnmatchcase(parts[count], wanted)}
    return len(parts) in covered
