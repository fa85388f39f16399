"""How the files of an environment are made independent of the folder that they were installed into. Pure.

An environment can't simply be moved: scripts begin with the path of their interpreter, and other files name the folder
too. In text, a mark stands for the folder while it is handed on. Compiled Python needs nothing: the interpreter puts
the right path into it when it is imported; but it names the time of its source, which is another on each node, and so
it is marked as one that isn't to be compared with its source (PEP 552). In other binary files, the folder is replaced
in place, as conda does it, where the new one isn't longer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

MARK = b"/drumbeat-environment-folder-4e7c21"
"""Stands for the environment's folder in text."""
TEXT, BINARY = "text", "binary"
MAX_TEXT = 4 << 20
_MAX_SHEBANG = 127
"""Bytes of a script's first line that Linux takes, without the end of the line (BINPRM_BUF_SIZE)."""
_PYC_HEAD = 16


class NotRelocatableError(ValueError):
    """A file can't be used in another folder."""


@dataclass(frozen=True)
class Canonical:
    """A file's content as it is handed on. data: None = as it is on the disk."""

    rewrite: str = ""
    data: bytes | None = None


def canonical(path: str, data: bytes, prefixes: Sequence[bytes]) -> Canonical:
    """The content that is handed on. prefixes: the paths of the environment's folder, the one with links first."""
    if path.endswith(".pyc") and len(data) >= _PYC_HEAD:
        return Canonical("", _without_place(data, prefixes))
    named = [prefix for prefix in prefixes if prefix in data]
    if not named:
        return Canonical()
    if b"\0" in data or len(data) > MAX_TEXT or MARK in data:
        return Canonical(BINARY)
    for prefix in named:
        data = data.replace(prefix, MARK)
    return Canonical(TEXT, data)


def relocated(file_rewrite: str, data: bytes, old: bytes, new: bytes) -> bytes:
    """The content for the folder `new`. old: the maker's folder. Raises NotRelocatableError."""
    if file_rewrite == TEXT:
        text = data.replace(MARK, new)
        first, _, _ = text.partition(b"\n")
        if first.startswith(b"#!") and len(first) > _MAX_SHEBANG:
            raise NotRelocatableError("the first line of a script would be too long")
        return text
    if file_rewrite != BINARY or old == new:
        return data
    if len(new) > len(old):
        raise NotRelocatableError("a binary file has the maker's folder in it, whose path is shorter")
    # The text that ends with a zero byte moves, and what it becomes shorter by are more zero bytes after it.
    return re.sub(re.escape(old) + rb"[^\0]*\0", lambda match: _padded(match[0], old, new), data)


def _padded(text: bytes, old: bytes, new: bytes) -> bytes:
    return text.replace(old, new).ljust(len(text), b"\0")


def _without_place(data: bytes, prefixes: Sequence[bytes]) -> bytes:
    """Compiled Python that no time and no folder is in. Paths keep their lengths, as the format counts them."""
    head, body = data[:_PYC_HEAD], data[_PYC_HEAD:]
    if int.from_bytes(head[4:8], "little") == 0:  # It would be compared with the time of its source.
        head = head[:4] + (1).to_bytes(4, "little") + bytes(8)
    for prefix in prefixes:
        body = body.replace(prefix, b"/".ljust(len(prefix), b"_"))
    return head + body
