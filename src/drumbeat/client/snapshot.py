"""Packs a folder or file as a reproducible tar: sorted, without times and owners."""

from __future__ import annotations

import hashlib
import os
import stat
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import IO, cast

from drumbeat.client.ignore_files import FILES, WHOLE, IgnoreRules
from drumbeat.model.errors import RefusedError

MAX_BYTES = 1 << 30
"""What a job may bring. What is said of a folder without refusing it: `local_notes.py`."""
IN_MEMORY = 32 << 20
PIECE = 1 << 20


@dataclass(frozen=True)
class Subject:
    """What is packed. key: of the job that names it, for messages."""

    key: str
    is_data: bool = False

    def rules(self, places: Mapping[str, Path]) -> IgnoreRules:
        """Returns the rules of what is left out. places: of the entries at the root, by name."""
        return WHOLE if self.is_data else IgnoreRules.for_entries(places)


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


def pack(
    source: Path | None, key: str, most: int = MAX_BYTES, *, is_data: bool = False, added: Sequence[Path] = ()
) -> Snapshot:
    """The folder or file. The caller closes `file`.

    key: of the job that names it, for messages. is_data: nothing is left out; of code, what its ignore files say.
    added: files and folders that are laid over it, under their names; source None = there is nothing else.
    Raises RefusedError: nothing there, too big, a link that leaves the folder, something that isn't a file.
    """
    subject = Subject(key, is_data=is_data)
    entries = list_entries(source, subject, added)
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


def list_entries(source: Path | None, subject: Subject, added: Sequence[Path] = ()) -> list[SnapshotEntry]:
    """What goes into the snapshot, in order of path. added: see `pack`."""
    named = [*added] if source is None else [source, *added]
    for place in named:
        if not place.exists():
            where = f"{subject.key}: {place}"
            raise RefusedError("there is no such folder", where=where, fix="Paths count from the job file.")
        if place in added and not place.name:
            raise RefusedError("the root of the file system can't be added", where=subject.key)
    if source is not None and not source.is_dir() and not added:
        layer = Layer(source.parent)
        return [_entry(LayerPart(source, layer), source.name, (layer,), subject)]
    is_whole = source is not None and source.is_dir()
    layers = [Layer(place, "" if is_whole and place is source else place.name) for place in named]
    entries = _Walk(tuple(layers), subject).entries()
    return sorted(entries, key=lambda entry: entry.path.encode("utf-8", "replace"))


def is_empty(folder: Path, key: str) -> bool:
    """Whether a snapshot of the folder has no file but those that say what stays out."""
    entries = _Walk((Layer(folder),), Subject(key)).entries()
    return not any(one.kind != "folder" and one.path not in FILES for one in entries)


def holds(folder: Path, path: str) -> bool:
    """Whether a snapshot of the folder has something at that path."""
    rules, place, inner = IgnoreRules.for_folder(folder), folder, ""
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


@dataclass(frozen=True)
class _Walk:
    """Finds the entries of a snapshot in its layers."""

    layers: tuple[Layer, ...]
    subject: Subject

    def entries(self) -> Iterator[SnapshotEntry]:
        """Everything that no rule leaves out."""
        names: dict[str, list[LayerPart]] = {}
        for layer in self.layers:
            part = LayerPart(layer.place, layer, layer.place.is_dir() and not layer.place.is_symlink())
            if layer.path:
                names.setdefault(layer.path, []).append(part)
            else:
                _list(part, self.subject, names)
        return self._below("", names, self.subject.rules({name: parts[-1].place for name, parts in names.items()}))

    def _below(self, path: str, names: Mapping[str, list[LayerPart]], rules: IgnoreRules) -> Iterator[SnapshotEntry]:
        for name, listed in names.items():
            parts = [part for part in listed if not rules.skips(f"{path}{name}" + ("/" if part.is_folder else ""))]
            if not parts:
                continue
            try:
                entry = _entry(parts[-1], f"{path}{name}", self.layers, self.subject)
            except FileNotFoundError:  # A temporary file of an editor or git, which is gone by now.
                continue
            yield entry
            folders = self._folders(f"{path}{name}", parts)
            if folders:
                inner = f"{path}{name}/"
                inside: dict[str, list[LayerPart]] = {}
                for folder in folders:
                    _list(folder, self.subject, inside)
                file = inside.get(rules.file)
                yield from self._below(inner, inside, rules.with_file(file[-1].place if file else None, inner))

    def _folders(self, path: str, parts: Sequence[LayerPart]) -> list[LayerPart]:
        """The folders that lie at one path, one over the other. Raises RefusedError where they can't."""
        for below, above in pairwise(parts):
            if below.is_folder != above.is_folder and not below.place.is_symlink():
                what = f"{below.place} and {above.place} would both be {path}, and one of them is no folder"
                raise RefusedError(what, where=self.subject.key, fix="Rename one of them.")
        return [part for part in parts if part.is_folder]


def _list(folder: LayerPart, subject: Subject, names: dict[str, list[LayerPart]]) -> None:
    """Adds what lies in a folder."""
    try:
        with os.scandir(folder.place) as entries:
            for one in entries:
                names.setdefault(one.name, []).append(
                    LayerPart(Path(one.path), folder.layer, one.is_dir(follow_symlinks=False))
                )
    except OSError as error:
        raise _unreadable(folder.place, subject, error) from None


def _entry(part: LayerPart, path: str, layers: Sequence[Layer], subject: Subject) -> SnapshotEntry:
    place = part.place
    status = place.lstat()
    if stat.S_ISLNK(status.st_mode):
        return SnapshotEntry(path, place, "link", target=_target(part, path, layers, subject))
    if stat.S_ISDIR(status.st_mode):
        return SnapshotEntry(path, place, "folder")
    if stat.S_ISREG(status.st_mode):
        return SnapshotEntry(path, place, "file", status.st_size, bool(status.st_mode & 0o100))
    fix = "" if subject.is_data else LEAVE_OUT
    raise RefusedError("only files, folders and links can be sent", where=f"{subject.key}: {place}", fix=fix)


def _target(link: LayerPart, path: str, layers: Sequence[Layer], subject: Subject) -> str:
    """Where a link points to, relative to it. Links out of the folder would point at nothing, or at others' files."""
    target = link_target(link, path, layers)
    if target is None:
        others = f"Copy what it points to, make it an input, or leave the link out. {LEAVE_OUT}"
        what = f"this link leaves the folder, to {link.place.readlink()}"
        raise RefusedError(what, where=f"{subject.key}: {link.place}", fix=UPLOAD if subject.is_data else others)
    return target


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
    """Formats a size."""
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
    digest = hashlib.sha256()
    while piece := file.read(PIECE):
        digest.update(piece)
    return digest.hexdigest()


LEAVE_OUT = "What isn't needed is left out by a line in .amlignore (or .gitignore)."
UPLOAD = "With `datastore: NAME` beside its path it is uploaded there, whatever its size, and links are followed."


@dataclass(frozen=True)
class Layer:
    """A folder or file on this machine. path: where it lies in the snapshot, "" = it is the whole snapshot.

    Layers are laid over one another without copying anything: a folder goes into the folder of the same name below it,
    any other thing takes the place of what is there, as long as that is no folder.
    """

    place: Path
    path: str = ""

    @cached_property
    def top(self) -> Path:
        """The resolved path."""
        return self.place.resolve()

    def within(self, aim: Path) -> str | None:
        """Returns the path in the snapshot of a place on this machine, None for one that isn't in this layer."""
        return str(PurePosixPath(self.path, aim.relative_to(self.top))) if aim.is_relative_to(self.top) else None


@dataclass(frozen=True)
class LayerPart:
    """A file, folder or link of one layer, at one path of the snapshot. is_folder: a link to one is none."""

    place: Path
    layer: Layer
    is_folder: bool = False


def link_target(link: LayerPart, path: str, layers: Sequence[Layer]) -> str | None:
    """Returns where a link points to in the snapshot, relative to it; None for a link that leaves the snapshot."""
    aim = _aim(link.place)
    real = Path(os.path.realpath(aim))
    # As written it may go up past its folder and name it on its way back, and there it has another name.
    own = [link.layer, *(layer for layer in layers if layer is not link.layer)]
    inner = next((place for layer in own if (place := layer.within(aim)) is not None), None)
    if inner is not None:
        is_inside = any(layer.within(real) is not None for layer in layers)
    else:
        inner = _beside(link.place.readlink(), path)
        is_inside = inner is not None and len(layers) > 1
    return os.path.relpath(f"/{inner}", f"/{PurePosixPath(path).parent}") if inner is not None and is_inside else None


def _aim(link: Path) -> Path:
    """What a link names. `..` goes up from where a folder really lies, as the kernel has it."""
    parts = (link.parent.resolve() / link.readlink()).parts
    climbed = max((n for n, one in enumerate(parts, 1) if one == ".."), default=1)
    return Path(os.path.realpath(Path(*parts[:climbed])), *parts[climbed:])


def _beside(written: Path, path: str) -> str | None:
    """Returns the path that a link in one layer names in another one, as the ranks find it; None = none."""
    names = [one for one in written.parts if one != ".."]
    inner = os.path.normpath(PurePosixPath(path).parent / written)
    is_climb_first = [*written.parts[len(written.parts) - len(names) :]] == names
    is_outside = written.is_absolute() or PurePosixPath(inner).parts[:1] == ("..",)
    return inner if is_climb_first and not is_outside else None
