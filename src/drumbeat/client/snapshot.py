"""A folder or file as one tar that is the same whenever its content is: sorted, without times and owners."""

from __future__ import annotations

import hashlib
import os
import stat
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, cast

from drumbeat.client.ignore_files import FILES, WHOLE, IgnoreRules
from drumbeat.protocol.errors import RefusedError

MAX_BYTES = 1 << 30
IN_MEMORY = 32 << 20
PIECE = 1 << 20


@dataclass(frozen=True)
class Subject:
    """What is packed. key: of the job that names it, for messages."""

    key: str
    is_data: bool = False

    def rules(self, folder: Path) -> IgnoreRules:
        """What stays out."""
        return WHOLE if self.is_data else IgnoreRules.of(folder)


@dataclass(frozen=True)
class SnapshotEntry:
    """One thing in a snapshot. path: in the snapshot. target: of a link. size: in bytes, of a file."""

    path: str
    place: Path
    kind: str
    size: int = 0
    is_executable: bool = False
    target: str = ""


@dataclass(frozen=True)
class Snapshot:
    """A packed tar. digest: its SHA-256 in hex. size: of the tar, in bytes."""

    digest: str
    size: int
    file: IO[bytes]

    def pieces(self) -> Iterator[bytes]:
        """The bytes, from the beginning."""
        self.file.seek(0)
        while piece := self.file.read(PIECE):
            yield piece


def pack(source: Path, key: str, most: int = MAX_BYTES, *, is_data: bool = False) -> Snapshot:
    """The folder or file. The caller closes `file`.

    key: of the job that names it, for messages. is_data: nothing is left out; of code, what its ignore files say.
    Raises RefusedError: nothing there, too big, a link that leaves the folder, something that isn't a file.
    """
    subject = Subject(key, is_data=is_data)
    entries = entries_of(source, subject)
    _check_size(entries, subject, most)
    file = cast("IO[bytes]", tempfile.SpooledTemporaryFile(IN_MEMORY))  # noqa: SIM115 - it goes to the caller
    try:
        with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for entry in entries:
                _add(tar, entry, subject)
        size = file.tell()
        return Snapshot(_digest(file), size, file)
    except BaseException:
        file.close()
        raise


def entries_of(source: Path, subject: Subject) -> list[SnapshotEntry]:
    """What goes into the snapshot, in order of path."""
    if not source.exists():
        where = f"{subject.key}: {source}"
        raise RefusedError("there is no such folder", where=where, fix="Paths count from the job file.")
    if not source.is_dir():
        return [_entry(source, source.parent, source.name, subject)]
    found = _walk(source, source, "", subject.rules(source), subject)
    return sorted(found, key=lambda entry: entry.path.encode("utf-8", "replace"))


def is_empty(folder: Path, key: str) -> bool:
    """Whether a snapshot of the folder has no file but those that say what stays out."""
    entries = _walk(folder, folder, "", IgnoreRules.of(folder), Subject(key))
    return not any(one.kind != "folder" and one.path not in FILES for one in entries)


def holds(folder: Path, path: str) -> bool:
    """Whether a snapshot of the folder has something at that path."""
    rules, place, inner = IgnoreRules.of(folder), folder, ""
    for name in PurePosixPath(os.path.normpath(path)).parts:
        place = place / name
        is_folder = place.is_dir() and not place.is_symlink()
        inner = f"{inner}{name}" + ("/" if is_folder else "")
        if name == ".." or not os.path.lexists(place) or rules.skips(inner):
            return False
        if is_folder:
            rules = rules.within(place, inner)
        else:
            inner += "/"
    return True


def _walk(root: Path, folder: Path, path: str, rules: IgnoreRules, subject: Subject) -> Iterator[SnapshotEntry]:
    for found in _listed(folder, subject):
        is_folder = found.is_dir(follow_symlinks=False)
        inner = f"{path}{found.name}" + ("/" if is_folder else "")
        if rules.skips(inner):
            continue
        place = Path(found.path)
        yield _entry(place, root, inner.rstrip("/"), subject)
        if is_folder:
            yield from _walk(root, place, inner, rules.within(place, inner), subject)


def _listed(folder: Path, subject: Subject) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except OSError as error:
        raise _unreadable(folder, subject, error) from None


def _entry(place: Path, root: Path, path: str, subject: Subject) -> SnapshotEntry:
    status = place.lstat()
    if stat.S_ISLNK(status.st_mode):
        return SnapshotEntry(path, place, "link", target=_target(place, root, subject))
    if stat.S_ISDIR(status.st_mode):
        return SnapshotEntry(path, place, "folder")
    if stat.S_ISREG(status.st_mode):
        return SnapshotEntry(path, place, "file", status.st_size, bool(status.st_mode & 0o100))
    fix = "" if subject.is_data else LEAVE_OUT
    raise RefusedError("only files, folders and links can be sent", where=f"{subject.key}: {place}", fix=fix)


def _target(link: Path, root: Path, subject: Subject) -> str:
    """Where a link points to, relative to it. Links out of the folder would point at nothing, or at others' files."""
    aim, top = _aim(link), root.resolve()
    if not aim.is_relative_to(top) or not Path(os.path.realpath(aim)).is_relative_to(top):
        others = f"Copy what it points to, make it an input, or leave the link out. {LEAVE_OUT}"
        what, fix = f"this link leaves the folder, to {link.readlink()}", UPLOAD if subject.is_data else others
        raise RefusedError(what, where=f"{subject.key}: {link}", fix=fix)
    # As written it may go up past the folder and name it on its way back, and there it has another name.
    return os.path.relpath(aim, link.parent.resolve())


def _aim(link: Path) -> Path:
    """What a link names. `..` goes up from where a folder really lies, as the kernel has it."""
    parts = (link.parent.resolve() / link.readlink()).parts
    climbed = max((n for n, one in enumerate(parts, 1) if one == ".."), default=1)
    return Path(os.path.realpath(Path(*parts[:climbed])), *parts[climbed:])


def _check_size(entries: list[SnapshotEntry], subject: Subject, most: int) -> None:
    total = sum(entry.size for entry in entries)
    if total <= most:
        return
    biggest = sorted(entries, key=lambda entry: entry.size, reverse=True)[:3]
    named = ", ".join(f"{entry.path} ({mib(entry.size)})" for entry in biggest if entry.size)
    what = f"it holds {mib(total)} in {len(entries):,} entries; at most {mib(most)} are sent. The biggest: {named}"
    fix = UPLOAD if subject.is_data else f"Make data an input of the job. {LEAVE_OUT}"
    raise RefusedError(what, where=subject.key, fix=fix)


def mib(size: int) -> str:
    """A size as people read it."""
    return f"{size / (1 << 20):,.1f} MiB"


def _add(tar: tarfile.TarFile, entry: SnapshotEntry, subject: Subject) -> None:
    info = tarfile.TarInfo(entry.path)
    match entry.kind:
        case "folder":
            info.type, info.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(info)
        case "link":
            info.type, info.mode, info.linkname = tarfile.SYMTYPE, 0o777, entry.target
            tar.addfile(info)
        case _:
            info.size, info.mode = entry.size, 0o755 if entry.is_executable else 0o644
            _add_file(tar, info, entry, subject)


def _add_file(tar: tarfile.TarFile, info: tarfile.TarInfo, entry: SnapshotEntry, subject: Subject) -> None:
    try:
        with entry.place.open("rb") as content:
            tar.addfile(info, content)
    except OSError as error:
        # tarfile itself raises a bare OSError when the file has become shorter.
        if error.errno is None:
            what = "this file changed while it was packed"
            raise RefusedError(what, where=f"{subject.key}: {entry.place}", fix="Submit again.") from None
        raise _unreadable(entry.place, subject, error) from None


def _unreadable(place: Path, subject: Subject, error: OSError) -> RefusedError:
    fix = "It has to be readable for you." if subject.is_data else LEAVE_OUT
    return RefusedError(f"can't be read: {error.strerror}", where=f"{subject.key}: {place}", fix=fix)


def _digest(file: IO[bytes]) -> str:
    file.seek(0)
    found = hashlib.sha256()
    while piece := file.read(PIECE):
        found.update(piece)
    return found.hexdigest()


LEAVE_OUT = "What isn't needed is left out by a line in .amlignore (or .gitignore)."
UPLOAD = "With `datastore: NAME` beside its path it is uploaded there, whatever its size, and links are followed."
