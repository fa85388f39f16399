"""The files of a job's code, for comparing jobs."""

from __future__ import annotations

import difflib
import hashlib
import tarfile
from dataclasses import dataclass
from typing import BinaryIO

MAX_TEXT = 1 << 20
"""Maximum size of a file whose lines are compared."""
MAX_TEXTS = 64 << 20
"""Their maximum total size."""


@dataclass(frozen=True)
class CodeFile:
    """A file of a snapshot. lines: None = it isn't text, or is too long."""

    sha256: str
    lines: tuple[str, ...] | None = None


def read_files(archive: BinaryIO) -> dict[str, CodeFile]:
    """Returns the files of a snapshot by path; links are compared by target. Raises OSError, tarfile.TarError."""
    files: dict[str, CodeFile] = {}
    left = MAX_TEXTS
    with tarfile.open(fileobj=archive, mode="r:") as tar:
        for member in tar:
            if member.issym():
                files[member.name] = CodeFile(f"link to {member.linkname}")
            elif member.isfile() and (content := tar.extractfile(member)):
                is_short = member.size <= min(MAX_TEXT, left)
                data = content.read() if is_short else b""
                digest = hashlib.sha256(data).hexdigest() if is_short else _digest(content)
                left -= len(data)
                files[member.name] = CodeFile(digest, _lines(data) if is_short else None)
    return files


def _digest(content: object) -> str:
    return hashlib.file_digest(content, "sha256").hexdigest()  # pyright: ignore[reportArgumentType] (tarfile's reader)


def _lines(data: bytes) -> tuple[str, ...] | None:
    try:
        return None if b"\0" in data else tuple(data.decode().splitlines())
    except UnicodeDecodeError:
        return None


def describe_difference(before: CodeFile | None, after: CodeFile | None) -> str | None:
    """Returns `differs (+3 −1)`, `only here`, `same`, or None for a file that doesn't exist."""
    if after is None:
        return None
    if before is None:
        return "only here"
    if before.sha256 == after.sha256:
        return "same"
    if before.lines is None or after.lines is None:
        return "differs"
    added = removed = 0
    for kind, *span in difflib.SequenceMatcher(None, before.lines, after.lines, autojunk=False).get_opcodes():
        if kind != "equal":
            removed, added = removed + span[1] - span[0], added + span[3] - span[2]
    return f"differs (+{added} −{removed})"
