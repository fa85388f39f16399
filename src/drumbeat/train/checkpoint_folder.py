"""A folder of checkpoints on a disk: each is complete or absent, is verified before it is read, and old ones are
removed.

A checkpoint is written into a separate folder that readers ignore, and renamed when all of it is on disk. So a crash at
any byte leaves the last good one. Its manifest has the size and hash of each file. Only the newest generation (attempt
and round of a job) may publish: ranks of an earlier one that still run on a lost node are refused.
`checkpoint_files.py` writes and reads the files. Standard library only: no torch, no server.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
from collections.abc import Generator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from drumbeat.model.errors import RefusedError

MANIFEST = "manifest.json"
FORMAT = 1
_STEP = re.compile(r"step-(\d{12,})")
_PARTIAL, _REPLACED, _BROKEN = ".partial-", ".replaced-", ".broken-"
_GENERATION = ".generation.json"
_LOCK = ".lock"
_PIECE = 1 << 20


@dataclass(frozen=True, order=True)
class Generation:
    """The start of a job's ranks that writes: a later attempt or round closes the folder to earlier ones."""

    attempt: int = 0
    round: int = 0
    job: str = ""

    @classmethod
    def from_environment(cls, variables: Mapping[str, str]) -> Generation:
        """Returns the generation in drumbeat's variables; outside a job there is only one."""
        attempt, number = (int(variables.get(f"DRUMBEAT_{name}", "0")) for name in ("ATTEMPT", "ROUND"))
        job = variables.get("DRUMBEAT_UNIQUE_JOB") or variables.get("DRUMBEAT_JOB", "")
        return cls(attempt, number, job)

    def is_closed_by(self, owner: Generation) -> bool:
        """Whether the folder's owner is a later start of the same job."""
        return owner.job == self.job and owner > self

    def __str__(self) -> str:
        """Returns `attempt 2, round 1`, with the job."""
        return f"attempt {self.attempt}, round {self.round} of {f'job {self.job}' if self.job else 'no job'}"


@dataclass(frozen=True)
class Digest:
    """The expected content of a file: its size in bytes, and its SHA-256 in hexadecimal digits."""

    bytes: int
    sha256: str

    @classmethod
    def from_file(cls, path: Path) -> Digest:
        """Reads a file and returns its digest. Raises OSError."""
        digest, size = hashlib.sha256(), 0
        with path.open("rb") as file:
            while piece := file.read(_PIECE):
                digest.update(piece)
                size += len(piece)
        return cls(size, digest.hexdigest())


@dataclass(frozen=True)
class CheckpointManifest:
    """The list of a checkpoint's files."""

    step: int
    world_size: int
    generation: Generation
    files: Mapping[str, Digest]

    def write(self, folder: Path) -> None:
        """Writes and syncs the manifest beside the files that it lists."""
        document = {"format": FORMAT, **asdict(self)}
        with (folder / MANIFEST).open("w", encoding="utf-8") as file:
            json.dump(document, file, indent=1, sort_keys=True)
            file.flush()
            os.fsync(file.fileno())

    @classmethod
    def read(cls, folder: Path) -> CheckpointManifest:
        """Reads a checkpoint's manifest. Raises ValueError, KeyError or TypeError if it isn't one; OSError."""
        document: dict[str, Any] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        if document["format"] != FORMAT:
            what = f"the checkpoint has format {document['format']}, and this version of drumbeat reads format {FORMAT}"
            raise RefusedError(what, where=str(folder), fix="Train with the version of drumbeat that wrote it.")
        files = {name: Digest(**digest) for name, digest in document["files"].items()}
        return cls(document["step"], document["world_size"], Generation(**document["generation"]), files)


class CheckpointFolder:
    """The checkpoints of one training."""

    def __init__(self, root: Path, keep: int, generation: Generation) -> None:
        self.root, self.keep, self.generation = root, keep, generation

    def claim(self) -> None:
        """Closes the folder to earlier generations, and removes their partial files.

        The folder of another job is taken over. Raises RefusedError if a later generation of this job has claimed it.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        with self._locked():
            owner = self._owner()
            if owner is not None and self.generation.is_closed_by(owner):
                raise self._refusal(owner)
            _replace_text(self.root / _GENERATION, json.dumps(asdict(self.generation)))
            self._clean_up()

    def steps(self) -> list[int]:
        """Returns the steps of the published checkpoints, newest first."""
        names = [path.name for path in self.root.iterdir()] if self.root.is_dir() else []
        return sorted((int(match[1]) for name in names if (match := _STEP.fullmatch(name))), reverse=True)

    def path(self, step: int) -> Path:
        """Returns the folder of a published checkpoint."""
        return self.root / f"step-{step:012d}"

    def partial(self, step: int) -> Path:
        """Returns the folder in which the checkpoint of a step is written, the same for all ranks of a generation."""
        return self.root / f"{_PARTIAL}{step:012d}-{self.generation.attempt}.{self.generation.round}"

    def begin(self, step: int) -> Path:
        """Creates the empty folder in which a checkpoint is written."""
        partial = self.partial(step)
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        return partial

    def publish(self, manifest: CheckpointManifest) -> Path:
        """Publishes a written checkpoint, and removes earlier steps, so that `keep` remain, including this one.

        Later steps stay: they belong to a training that this one doesn't continue. A checkpoint of the same step from
        an earlier generation is replaced. Raises RefusedError if a later generation, or another job, has claimed the
        folder.
        """
        partial, final = self.partial(manifest.step), self.path(manifest.step)
        manifest.write(partial)
        _sync_folder(partial)
        with self._locked():
            self._check_generation()
            replaced = self.root / f"{_REPLACED}{final.name}"
            if final.exists():
                final.rename(replaced)
            partial.rename(final)
            _sync_folder(self.root)
            shutil.rmtree(replaced, ignore_errors=True)
            earlier = [step for step in self.steps() if step < manifest.step]
            for step in earlier[self.keep - 1 :]:
                _remove(self.path(step))
        return final

    def put_aside(self, step: int) -> Path:
        """Renames a broken checkpoint, so that it is ignored and doesn't count among the kept ones."""
        aside = self.root / f"{_BROKEN}{self.path(step).name}"
        with self._locked():
            self._check_generation()
            shutil.rmtree(aside, ignore_errors=True)
            self.path(step).rename(aside)
        return aside

    def broken_files(self, step: int, share: slice = slice(None)) -> list[str]:
        """Returns the problems of a checkpoint, as `name: reason`; an empty list means that it is intact.

        share: which of its files are read, so that ranks can divide them. Raises RefusedError if a file can't be read,
        which proves nothing, or if the format is another version's.
        """
        folder = self.path(step)
        try:
            manifest = CheckpointManifest.read(folder)
        except (FileNotFoundError, ValueError, KeyError, TypeError) as error:
            return [f"{MANIFEST}: {getattr(error, 'strerror', None) or error}"]
        except OSError as error:
            raise _unreadable(folder / MANIFEST, error) from None
        return [
            f"{name}: {reason}"
            for name in sorted(manifest.files)[share]
            if (reason := _what_is_wrong(folder / name, manifest.files[name]))
        ]

    def _clean_up(self) -> None:
        """Removes partial files of a crash; a checkpoint that was being replaced is restored."""
        for path in list(self.root.iterdir()):
            final = self.root / path.name.removeprefix(_REPLACED)
            if path.name.startswith(_REPLACED) and not final.exists():
                path.rename(final)
            elif path.name.startswith((_PARTIAL, _REPLACED)):
                shutil.rmtree(path, ignore_errors=True)

    def _owner(self) -> Generation | None:
        try:
            return Generation(**json.loads((self.root / _GENERATION).read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None

    def _check_generation(self) -> None:
        owner = self._owner()
        if owner is not None and (owner.job != self.generation.job or owner > self.generation):
            raise self._refusal(owner)

    def _refusal(self, owner: Generation) -> RefusedError:
        what = f"{self.generation} may not save checkpoints here: {owner} has started since"
        fix = "Give each job its own `folder=`, or none."
        if owner.job == self.generation.job:
            fix = "Nothing needs to be done: the later ranks resume from the last checkpoint."
        return RefusedError(what, where=str(self.root), fix=fix)

    @contextlib.contextmanager
    def _locked(self) -> Generator[None]:
        """Holds the folder's lock, which the kernel releases if the process dies."""
        descriptor = os.open(self.root / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _what_is_wrong(path: Path, expected: Digest) -> str:
    try:
        digest = Digest.from_file(path)
    except FileNotFoundError as error:
        return error.strerror or str(error)
    except OSError as error:
        raise _unreadable(path, error) from None
    if digest.bytes != expected.bytes:
        return f"{digest.bytes} bytes instead of {expected.bytes}"
    return "" if digest == expected else "its content has changed"


def _unreadable(path: Path, error: OSError) -> RefusedError:
    what = f"a checkpoint can't be read: {error.strerror or error}"
    return RefusedError(what, where=str(path), fix="Check the disk and its permissions, then start again.")


def _remove(folder: Path) -> None:
    """Removes a published checkpoint. It is renamed first, so that readers never see a part of it after a crash."""
    doomed = folder.with_name(f"{_PARTIAL}removed-{folder.name}")
    shutil.rmtree(doomed, ignore_errors=True)
    folder.rename(doomed)
    shutil.rmtree(doomed, ignore_errors=True)


def _replace_text(path: Path, text: str) -> None:
    part = path.with_name(f"{path.name}.part")
    with part.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
