"""Lists the files of a folder for an upload: follows links, and records which files they add from elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from errno import ELOOP, ENOENT, ENOTDIR
from pathlib import Path

from drumbeat.jobfile.reading.error_messages import short
from drumbeat.model.errors import RefusedError, StorageError
from drumbeat.model.plurals import list_first
from drumbeat.model.wire import is_utf8

NAMED = 3
"""Links that are named in a sentence."""


@dataclass(frozen=True)
class SourceFile:
    """A local file. path: in the store. link: the one by which it lies outside of its folder, "" = none."""

    path: str
    place: Path
    size: int
    sha256: str = ""
    link: str = ""


@dataclass(frozen=True)
class _Way:
    """How a folder was reached. top: the folder that is sent; real: this one; above: its parents, all resolved.

    below: what the names in it begin with; link: as of a source.
    """

    top: Path
    real: Path
    above: tuple[Path, ...] = ()
    below: str = ""
    link: str = ""


def list_sources(local: Path, key: str = "path") -> list[SourceFile]:
    """Returns the files of a folder, or the one file, links followed. Raises RefusedError, StorageError."""
    if not local.exists():
        raise RefusedError("there is nothing there", where=f"{key}: {local}")
    if local.is_file():
        return [SourceFile(local.name, local, local.stat().st_size)]
    if not local.is_dir():
        raise RefusedError("this is neither a file nor a folder", where=f"{key}: {local}")
    top = local.resolve()
    sources = list(_files(local, _Way(top, top)))
    if not sources:
        raise RefusedError("there is no file in this folder", where=f"{key}: {local}")
    return sorted(sources, key=lambda one: one.path)


def _files(folder: Path, way: _Way) -> Iterator[SourceFile]:
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise StorageError(f"can't be read: {error.strerror}", where=str(folder)) from None
    for entry in entries:
        path = f"{way.below}{entry.name}"
        _require_readable_name(path)
        inner = _entered(entry, replace(way, below=path))
        if entry.is_dir():
            yield from _files(entry, replace(inner, above=(*way.above, way.real), below=f"{path}/"))
        elif entry.is_file():
            yield SourceFile(path, entry, entry.stat().st_size, link=inner.link)
        else:
            raise RefusedError("only files and folders can be sent", where=str(entry))


def _entered(entry: Path, way: _Way) -> _Way:
    """Returns the way into an entry. Raises RefusedError for a link that leads nowhere, or in a circle."""
    if not entry.is_symlink():
        return replace(way, real=way.real / entry.name)
    try:
        real = Path(os.path.realpath(entry, strict=True))
    except OSError as error:
        raise _dead(entry, error) from None
    if real in (*way.above, way.real):
        raise RefusedError(f"this link leads in a circle, to {entry.readlink()}", where=str(entry), fix="Remove it.")
    link = way.link or ("" if real.is_relative_to(way.top) else way.below)
    return replace(way, real=real, link=link)


def _dead(link: Path, error: OSError) -> RefusedError | StorageError:
    target = link.readlink()
    if error.errno == ELOOP:
        return RefusedError(f"this link leads in a circle, to {target}", where=str(link), fix="Remove it.")
    if error.errno in (ENOENT, ENOTDIR):
        fix = "Remove it, or bring back what it points to."
        return RefusedError(f"this link leads nowhere: there is no {target}", where=str(link), fix=fix)
    return StorageError(f"can't be read: {error.strerror}", where=str(link))


def _require_readable_name(path: str) -> None:
    if not is_utf8(path):
        raise RefusedError("the name isn't UTF-8", where=ascii(path))


def describe_links(sources: Sequence[SourceFile]) -> str:
    """Describes the links that add files from outside of the folder; "" = none."""
    links = [*dict.fromkeys(one.link for one in sources if one.link)]
    if not links:
        return ""
    named = list_first([short(link) for link in links], NAMED)
    if len(links) == 1:
        return f"1 link leads out of the folder and is followed: {named}"
    return f"{len(links)} links lead out of the folder and are followed: {named}"
