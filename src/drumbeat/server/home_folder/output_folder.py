"""A job's outputs: collected in hidden folders, made visible atomically, by the lowest node of the newest attempt.

Writing `.outputs.json`, the list of visible files, commits the outputs. Then the files are moved to their places, which
is finished before any other operation on the job's outputs, also after a crash.
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
"""The version of the manifest: inode, modification time, size."""


@dataclass(frozen=True)
class OutputFile:
    """A file of the outputs, as its node described it."""

    size: int
    sha256: str


@dataclass(frozen=True)
class Winner:
    """The visible file of a path, and its node."""

    node: int
    kept: OutputFile


@dataclass(frozen=True)
class OutputManifest:
    """The files that the nodes of the newest attempt have committed."""

    attempt: int = 0
    given: dict[str, dict[str, OutputFile]] = field(default_factory=dict[str, dict[str, OutputFile]])
    """Files by node and path."""
    moving: int | None = None
    """The node whose files haven't been moved to their places yet."""

    def node_files(self, node: int) -> dict[str, OutputFile]:
        """Returns the files of a node."""
        return self.given.get(str(node), {})

    def with_node(self, attempt: int, node: int, files: dict[str, OutputFile]) -> OutputManifest:
        """Returns the manifest with new files of a node. A newer attempt starts with an empty manifest."""
        before = self.given if attempt == self.attempt else {}
        return OutputManifest(attempt, {**before, str(node): files}, node)


def winners(given: dict[str, dict[str, OutputFile]]) -> dict[str, Winner]:
    """Returns the visible files: if paths of several nodes conflict, the lowest node's."""
    shown: dict[str, Winner] = {}
    folders: set[str] = set()
    for node in sorted(map(int, given)):
        for path, kept in given[str(node)].items():
            above = _parent_folders(path)
            if path in shown or path in folders or above & shown.keys():
                continue
            shown[path] = Winner(node, kept)
            folders |= above
    return shown


def _parent_folders(path: str) -> set[str]:
    parts = path.split("/")
    return {"/".join(parts[:n]) for n in range(1, len(parts))}


def part_folder(attempt: int, node: int) -> str:
    """Returns the folder in which a node's files are collected, relative to the job's folder."""
    return f"{PARTS}/{attempt}/{node}"


def part_place(folder: Path, attempt: int, node: int, path: str) -> Path:
    """Returns the path of a collected file. Raises ForbiddenError."""
    return inside(folder, f"{part_folder(attempt, node)}/{path}")


def find_unfit(parts: dict[str, Path], files: dict[str, OutputFile], before: dict[str, OutputFile]) -> list[str]:
    """Returns the paths whose collected file doesn't match its description and wasn't committed before.

    Removes files that can't be completed by appending, so that they can be sent again from the beginning; flushes the
    matching ones to the disk.
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
    """The folder with the visible outputs of one job, for one thread at a time.

    All calls must be inside `alone`, because other processes may use the same folder. After an exception, the object
    must not be used again.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._manifest: OutputManifest | None = None
        self._shown: dict[str, Winner] = {}
        self._version: Version | None = None

    @contextmanager
    def alone(self) -> Generator[OutputFolder]:
        """Locks the folder until the end of the block, and yields it in its last committed state."""
        if not self._folder.exists():
            yield self  # Nothing has been committed that could change.
            return
        with locked(self._folder / LOCK, os.O_RDWR):
            if _version(self._folder / MANIFEST) != self._version:
                self._manifest = None
            yield self

    @property
    def shown(self) -> dict[str, Winner]:
        """Returns the visible files, by path under `outputs/`."""
        self.manifest()
        return self._shown

    def manifest(self) -> OutputManifest:
        """Returns the manifest, after finishing an interrupted commit."""
        if self._manifest is None:
            self._use(_read(self._folder / MANIFEST))
            self._settle()
        return self._manifest or OutputManifest()

    def admit(self, attempt: int) -> None:
        """Raises StaleError if a newer attempt has committed its outputs."""
        newest = self.manifest().attempt
        if attempt < newest:
            raise StaleError(f"attempt {attempt} has been replaced by attempt {newest}")

    def show(self, attempt: int, node: int, files: dict[str, OutputFile]) -> None:
        """Commits a node's files, which are in its `part_folder` or visible already."""
        self.admit(attempt)
        self._write(self.manifest().with_node(attempt, node, files))
        failpoint("store.outputs_shown")
        self._settle()

    def drop(self, attempt: int, node: int) -> None:
        """Removes the uncommitted files of a node."""
        self.manifest()
        place = self._folder / part_folder(attempt, node)
        shutil.rmtree(place, ignore_errors=True)
        with suppress(OSError):  # It contains files of other nodes or attempts.
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
    """Returns the version of a file. Each write creates a new file, so its version differs."""
    try:
        status = file.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


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
    """Removes all files that aren't kept, and the folders that are empty then."""
    artifacts = target / RUN_FILES  # These belong to runs, not to the nodes of an attempt.
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
    """Returns the numeric names in a folder."""
    try:
        return [int(entry.name) for entry in folder.iterdir() if entry.name.isdecimal()]
    except FileNotFoundError:
        return []
