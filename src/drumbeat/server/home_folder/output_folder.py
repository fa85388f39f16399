"""A job's outputs: collected out of sight, shown at once, owned by the lowest node of the newest attempt.

`.outputs.json` says what is shown; writing it is the moment of showing. Moving the files to where it says follows, and
is finished before anything else is done with the job's outputs, after a crash too.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from drumbeat.model import wire
from drumbeat.model.errors import StaleError
from drumbeat.model.failpoints import failpoint
from drumbeat.server.home_folder.atomic_files import locked, put_whole, sync_folder
from drumbeat.server.home_folder.paths import inside
from drumbeat.server.home_folder.run_file import RUN_FILES

SHOWN = "outputs"
PARTS = ".parts"
MANIFEST = ".outputs.json"
LOCK = ".outputs.lock"


Version = tuple[int, int, int]
"""Which writing of the manifest it is: inode, time of change, size."""


@dataclass(frozen=True)
class OutputFile:
    """A file of the outputs as its node described it."""

    size: int
    sha256: str


@dataclass(frozen=True)
class Winner:
    """The file that is shown under a path, and the node that gave it."""

    node: int
    kept: OutputFile


@dataclass(frozen=True)
class OutputManifest:
    """The files that the nodes of the newest attempt have given."""

    attempt: int = 0
    given: dict[str, dict[str, OutputFile]] = field(default_factory=dict[str, dict[str, OutputFile]])
    """By node and path."""
    moving: int | None = None
    """The node whose files aren't in place yet."""

    def of(self, node: int) -> dict[str, OutputFile]:
        """What that node has given."""
        return self.given.get(str(node), {})

    def with_node(self, attempt: int, node: int, files: dict[str, OutputFile]) -> OutputManifest:
        """With that node's files in place of what it gave before; a newer attempt begins again."""
        before = self.given if attempt == self.attempt else {}
        return OutputManifest(attempt, {**before, str(node): files}, node)


def winners(given: dict[str, dict[str, OutputFile]]) -> dict[str, Winner]:
    """What is shown: of files under one path, or one under a folder's name, the lowest node's."""
    shown: dict[str, Winner] = {}
    folders: set[str] = set()
    for node in sorted(map(int, given)):
        for path, kept in given[str(node)].items():
            above = _folders_of(path)
            if path in shown or path in folders or above & shown.keys():
                continue
            shown[path] = Winner(node, kept)
            folders |= above
    return shown


def _folders_of(path: str) -> set[str]:
    parts = path.split("/")
    return {"/".join(parts[:n]) for n in range(1, len(parts))}


def part_folder(attempt: int, node: int) -> str:
    """Where a node's files are collected, below the job's folder."""
    return f"{PARTS}/{attempt}/{node}"


def part_place(folder: Path, attempt: int, node: int, path: str) -> Path:
    """Where one of them is collected, in a job's folder. Raises ForbiddenError."""
    return inside(folder, f"{part_folder(attempt, node)}/{path}")


def find_unfit(parts: dict[str, Path], files: dict[str, OutputFile], before: dict[str, OutputFile]) -> list[str]:
    """The paths whose collected file isn't as described and wasn't given before.

    What can't become right by adding to it is taken away, so that it can be sent again from its beginning; what fits
    is on the disk when this returns.
    """
    return [path for path, kept in files.items() if before.get(path) != kept and not _is_fit(parts[path], kept)]


def _is_fit(part: Path, kept: OutputFile) -> bool:
    try:
        descriptor = os.open(part, os.O_RDONLY | os.O_NOFOLLOW)
    except (FileNotFoundError, NotADirectoryError):
        if kept.size == 0 and kept.sha256 == hashlib.sha256().hexdigest():
            part.parent.mkdir(0o700, parents=True, exist_ok=True)
            part.touch(0o600)
            return True
        return False
    with os.fdopen(descriptor, "rb") as file:
        size = os.fstat(descriptor).st_size
        if size < kept.size:
            return False
        if size == kept.size and hashlib.file_digest(file, "sha256").hexdigest() == kept.sha256:
            os.fsync(descriptor)
            return True
    part.unlink()
    return False


class OutputFolder:
    """The folder that shows the outputs of one job, for one thread of a server at a time.

    Everything is done inside `alone`, for other servers may be over the same folder. When a call raises, the object
    must not be used again.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._manifest: OutputManifest | None = None
        self._shown: dict[str, Winner] = {}
        self._version: Version | None = None

    @contextmanager
    def alone(self) -> Generator[OutputFolder]:
        """The same, as whoever showed something last has left it, and no other server's until the end."""
        if not self._folder.exists():
            yield self  # There is nothing yet that could be shown, or shown differently.
            return
        with locked(self._folder / LOCK, os.O_RDWR):
            if _version(self._folder / MANIFEST) != self._version:
                self._manifest = None
            yield self

    @property
    def shown(self) -> dict[str, Winner]:
        """The files that are shown, by path under `outputs/`."""
        self.manifest()
        return self._shown

    def manifest(self) -> OutputManifest:
        """What was given; what was left half done is finished first."""
        if self._manifest is None:
            self._use(_read(self._folder / MANIFEST))
            self._settle()
        return self._manifest or OutputManifest()

    def admit(self, attempt: int) -> None:
        """Raises StaleError when a newer attempt has shown its outputs."""
        newest = self.manifest().attempt
        if attempt < newest:
            raise StaleError(f"attempt {attempt} has been replaced by attempt {newest}")

    def show(self, attempt: int, node: int, files: dict[str, OutputFile]) -> None:
        """Shows a node's files, which lie in its `part_folder` or are shown already."""
        self.admit(attempt)
        self._write(self.manifest().with_node(attempt, node, files))
        failpoint("store.outputs_shown")
        self._settle()

    def drop(self, attempt: int, node: int) -> None:
        """Removes what a node has sent and not had shown."""
        self.manifest()
        place = self._folder / part_folder(attempt, node)
        shutil.rmtree(place, ignore_errors=True)
        with suppress(OSError):  # Something of other nodes, or attempts, is there.
            place.parent.rmdir()
            place.parent.parent.rmdir()

    def _settle(self) -> None:
        manifest = self._manifest
        if manifest is None or manifest.moving is None:
            return
        target, attempts = self._folder / SHOWN, self._folder / PARTS
        _prune(target, set(self._shown))
        parts = self._folder / part_folder(manifest.attempt, manifest.moving)
        _move([path for path, winner in self._shown.items() if winner.node == manifest.moving], parts, target)
        failpoint("store.outputs_moved")
        shutil.rmtree(parts, ignore_errors=True)
        for older in numbers(attempts):
            if older < manifest.attempt:
                shutil.rmtree(attempts / str(older), ignore_errors=True)
        self._write(replace(manifest, moving=None))

    def _write(self, manifest: OutputManifest) -> None:
        place = self._folder / MANIFEST
        put_whole(place, [wire.dumps(manifest).encode()], place.with_suffix(".new"))
        self._use(manifest)

    def _use(self, manifest: OutputManifest) -> None:
        self._manifest, self._shown = manifest, winners(manifest.given)
        self._version = _version(self._folder / MANIFEST)


def _version(file: Path) -> Version | None:
    """Another one after each writing of the file, which always makes a new one."""
    try:
        found = file.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _read(file: Path) -> OutputManifest:
    try:
        return wire.from_wire(OutputManifest, json.loads(file.read_bytes()))
    except FileNotFoundError:
        return OutputManifest()


def _move(paths: list[str], source: Path, target: Path) -> None:
    folders: set[Path] = set()
    for path in paths:
        part, place = source / path, target / path
        if part.exists():
            place.parent.mkdir(0o700, parents=True, exist_ok=True)
            part.replace(place)
            folders.add(place.parent)
    for folder in folders:
        sync_folder(folder)


def _prune(target: Path, kept: set[str]) -> None:
    """Takes away every file that isn't kept, and the folders that are empty then."""
    artifacts = target / RUN_FILES  # Belong to runs, not to the nodes of an attempt.
    for folder, _, files in os.walk(target, topdown=False):
        if artifacts == Path(folder) or artifacts in Path(folder).parents:
            continue
        for file in files:
            place = Path(folder, file)
            if place.relative_to(target).as_posix() not in kept:
                place.unlink()
        if not os.listdir(folder):  # noqa: PTH208 - os.walk gives text
            Path(folder).rmdir()


def numbers(folder: Path) -> list[int]:
    """What is in a folder under a number."""
    try:
        return [int(entry.name) for entry in folder.iterdir() if entry.name.isdecimal()]
    except FileNotFoundError:
        return []
