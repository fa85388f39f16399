"""The artifacts of MLflow's runs, in `jobs/<job>/outputs/mlflow-artifacts`, and `mlflow-artifacts` outside of jobs."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from drumbeat.model.errors import ConflictError, NotFoundError
from drumbeat.server.home_folder.atomic_files import fitting, put_whole, refusals, require_room
from drumbeat.server.home_folder.job_removal import remove_tree
from drumbeat.server.home_folder.output_folder import SHOWN
from drumbeat.server.home_folder.paths import inside, one_name
from drumbeat.server.home_folder.run_file import RUN_FILES, RunFile

_PART = ".artifact."
"""The prefix of temporary files in the folder of the job."""
_PART_AGE_S = 86_400.0
"""A temporary file that is older was left behind by a killed server."""


class FolderRunFiles:
    """The artifacts that MLflow's clients log. Safe for several threads and processes.

    job: the job of the run; "" = the run was created outside of jobs. A job's artifacts are among its outputs, below
    `outputs/mlflow-artifacts`. Paths are relative; one that would leave its folder raises ForbiddenError. A disk error
    raises StorageError.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def put(self, job: str, path: str, pieces: Iterable[bytes]) -> None:
        """Writes or replaces a file atomically. Raises ConflictError if the path is a folder."""
        folder, owner = self._folder(job), self._owner(job)
        with refusals(folder):
            place = inside(folder, path)
            require_room(self._root)
            place.parent.mkdir(0o700, parents=True, exist_ok=True)
            if place.is_dir():
                raise ConflictError("a folder is where a file should be", where=path, fix="Use another name.")
            _remove_old_parts(owner)
            put_whole(place, fitting(self._root, pieces), owner / f"{_PART}{secrets.token_hex(8)}")

    def remove(self, job: str, path: str) -> None:
        """Removes a file, or a folder with its content. Idempotent."""
        folder = self._folder(job)
        with refusals(folder):
            place = inside(folder, path)
            if place.is_dir() and not place.is_symlink():
                remove_tree(place)
            else:
                with suppress(FileNotFoundError, NotADirectoryError):
                    place.unlink()

    def entries(self, job: str, path: str) -> list[RunFile] | None:
        """Returns the content of a folder, by name; None if the path isn't a folder. path: "" = the root."""
        folder = self._folder(job)
        with refusals(folder):
            place = inside(folder, path) if path else folder
            if not place.is_dir():
                return None
            return sorted(_entries(place), key=lambda entry: entry.name)

    def locate(self, job: str, path: str) -> Path:
        """Returns the path of a file. Raises NotFoundError."""
        folder = self._folder(job)
        with refusals(folder):
            place = inside(folder, path)
            if not place.is_file():
                raise NotFoundError(f"no artifact {path} was logged", fix="List the artifacts: mlflow artifacts list")
            return place

    def _owner(self, job: str) -> Path:
        return inside(self._root / "jobs", one_name(job)) if job else self._root

    def _folder(self, job: str) -> Path:
        return self._owner(job) / SHOWN / RUN_FILES if job else self._root / RUN_FILES


def _entries(folder: Path) -> Iterator[RunFile]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield RunFile(entry.name, None)
            elif entry.is_file(follow_symlinks=False):
                with suppress(FileNotFoundError):  # Another request is removing it.
                    yield RunFile(entry.name, entry.stat().st_size)


def _remove_old_parts(folder: Path) -> None:
    for part in folder.glob(f"{_PART}*"):
        with suppress(FileNotFoundError):
            if part.stat().st_mtime < time.time() - _PART_AGE_S:
                part.unlink()
