"""The files of an input that a node has to fetch, and their addresses."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class ListedFile:
    """A file of an input. path: relative to the input, with `/`. key: names its content: other content has another.

    sha256: in hex, "" = the store doesn't tell it; key is then made of what the store tells instead (address, tag or
    time, size). tag: what the store calls this content, to ask for it and no other. alone: the input is this file, and
    its URI points to it; path is then its name.
    """

    path: str
    size: int
    key: str
    sha256: str = ""
    tag: str = ""
    alone: bool = False


@dataclass(frozen=True)
class Origin:
    """Where a file lies: below an address, or, `alone`, at it."""

    uri: str
    path: str
    alone: bool = False


@dataclass(frozen=True)
class Listing:
    """All files of an input as they were at one moment, by path. is_file: the input is its only file.

    origins: of files that don't lie below the input's own address, by path; nodes aren't told.
    """

    files: tuple[ListedFile, ...]
    is_file: bool = False
    origins: dict[str, Origin] = field(default_factory=dict[str, Origin])

    @property
    def size(self) -> int:
        """Bytes in all."""
        return sum(file.size for file in self.files)

    @property
    def key(self) -> str:
        """Names the content of the whole; changes with any file's path or content."""
        pairs = [[file.path, file.key] for file in self.files]
        return hashlib.sha256(json.dumps(pairs, separators=(",", ":")).encode()).hexdigest()


def listing(files: Sequence[ListedFile], *, is_file: bool = False) -> Listing:
    """The listing of these files, in order of path."""
    return Listing(tuple(sorted(files, key=lambda one: one.path)), is_file)


@dataclass(frozen=True)
class Link:
    """An address to GET a file at. headers: to send along."""

    url: str = field(repr=False)
    headers: dict[str, str] = field(default_factory=dict[str, str], repr=False)
