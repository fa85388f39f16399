"""The manifest of an environment's folder, and the content of each file as it is handed on."""

from __future__ import annotations

import hashlib
import mmap
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from drumbeat.model.environment_manifest import MAX_FILES, EnvironmentFile, EnvironmentManifest
from drumbeat.node.environments.relocation import BINARY, MARK, TEXT, NotRelocatableError, canonical

_LARGE = 4 << 20
"""Bytes from which on a file isn't read as a whole. It isn't text, nor compiled Python."""
_NOT_HANDED_ON = ("made", "made.part")


@dataclass(frozen=True)
class OwnFile:
    """A file of an environment on this node. is_changed: whether it is handed on with another content than it has."""

    path: str
    prefixes: tuple[bytes, ...]
    is_changed: bool

    def read(self, offset: int, length: int) -> bytes:
        """Bytes of the content that is handed on. Raises OSError."""
        with open(self.path, "rb") as file:
            if self.is_changed:
                data = file.read()
                changed = canonical(self.path, data, self.prefixes).data
                return (data if changed is None else changed)[offset : offset + length]
            return os.pread(file.fileno(), length, offset)


@dataclass(frozen=True)
class MadeEnvironment:
    """An environment that this node can hand on. own: its files by the SHA-256 of what is handed on."""

    manifest: EnvironmentManifest
    own: Mapping[str, OwnFile] = field(default_factory=dict[str, OwnFile])


def describe(folder: str, record: Mapping[str, object]) -> MadeEnvironment:
    """Reads an environment. record: what `made` says of it. Raises OSError; NotRelocatableError for one that can't be
    handed on.
    """
    prefixes = _prefixes(folder)
    files: list[EnvironmentFile] = []
    folders: list[str] = []
    links: dict[str, str] = {}
    own: dict[str, OwnFile] = {}
    for path, entry in _entries(folder, ""):
        _require_name(path)
        if entry.is_symlink():
            links[path] = _marked(os.readlink(entry.path), folder)
        elif entry.is_dir():
            folders.append(path)
        elif entry.is_file() and path not in _NOT_HANDED_ON:
            file, here = _described(path, entry, prefixes)
            files.append(file)
            own.setdefault(file.sha256, here)
    if len(files) > MAX_FILES:
        raise NotRelocatableError(f"it has {len(files):,} files")
    return MadeEnvironment(EnvironmentManifest(folder, tuple(files), tuple(folders), links, dict(record)), own)


def of_folder(manifest: EnvironmentManifest, folder: str) -> MadeEnvironment:
    """An environment whose manifest is known, with its files in `folder`."""
    own = {
        file.sha256: OwnFile(
            f"{folder}/{file.path}", _prefixes(folder), file.rewrite == TEXT or _is_compiled(file.path)
        )
        for file in manifest.files
        if file.rewrite != BINARY or folder == manifest.prefix
    }
    return MadeEnvironment(manifest, own)


def _prefixes(folder: str) -> tuple[bytes, ...]:
    return tuple(dict.fromkeys((os.fsencode(folder), os.fsencode(os.path.realpath(folder)))))


def _is_compiled(path: str) -> bool:
    return path.endswith(".pyc")


def target_here(target: str, folder: str) -> str:
    """A link's target in the folder of this node."""
    return target.replace(MARK.decode(), folder, 1) if target.startswith(MARK.decode()) else target


def _marked(target: str, folder: str) -> str:
    is_inside = target == folder or target.startswith(f"{folder}/")
    return MARK.decode() + target.removeprefix(folder) if is_inside else target


def _require_name(path: str) -> None:
    try:
        path.encode()
    except UnicodeEncodeError:
        raise NotRelocatableError("a file's name isn't UTF-8") from None


def _entries(above: str, relative: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Everything in a folder by its relative path, folders before what is in them."""
    with os.scandir(above) as scan:
        entries = sorted(scan, key=lambda entry: entry.name)
    for entry in entries:
        path = f"{relative}{entry.name}"
        yield path, entry
        if entry.is_dir(follow_symlinks=False):
            yield from _entries(entry.path, f"{path}/")


def _described(path: str, entry: os.DirEntry[str], prefixes: tuple[bytes, ...]) -> tuple[EnvironmentFile, OwnFile]:
    status = entry.stat(follow_symlinks=False)
    is_executable = bool(status.st_mode & 0o100)
    if status.st_size > _LARGE:
        rewrite, digest = _of_large(entry.path, prefixes)
        file = EnvironmentFile(path, status.st_size, digest, is_executable, rewrite)
        return file, OwnFile(entry.path, (), is_changed=False)
    with open(entry.path, "rb") as opened:
        data = opened.read()
    given = canonical(path, data, prefixes)
    content = data if given.data is None else given.data
    file = EnvironmentFile(path, len(content), hashlib.sha256(content).hexdigest(), is_executable, given.rewrite)
    return file, OwnFile(entry.path, prefixes, given.data is not None)


def _of_large(path: str, prefixes: tuple[bytes, ...]) -> tuple[str, str]:
    """(what is to be rewritten, SHA-256)."""
    with open(path, "rb") as file:
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
            is_found = any(view.find(prefix) >= 0 for prefix in prefixes)
        is_rewritten = is_found and not _is_compiled(path)  # Those are put right when they are imported.
        return BINARY if is_rewritten else "", hashlib.file_digest(file, "sha256").hexdigest()
