"""Removing the files of jobs, and what they take of the disk."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from drumbeat.model.failpoints import failpoint
from drumbeat.server.home_folder.atomic_files import sync_folder
from drumbeat.server.home_folder.logs import JOURNAL
from drumbeat.server.home_folder.output_folder import PARTS, SHOWN
from drumbeat.server.home_folder.stored_files import JobSpace

REMOVED = ".removed"
"""Beside the folders of jobs: what was a job's folder, until all of it is gone."""

CHECKPOINTS = "checkpoints"
_LOGS = ("logs", "user_logs")
_BLOCK = 512
"""Bytes that `stat` counts a file's space in."""


def set_aside_job(jobs: Path, folder: Path) -> None:
    """See `FolderArtifacts.set_aside_job`. The folder is renamed, so that nobody sees half of it."""
    bin_ = jobs / REMOVED
    bin_.mkdir(0o700, exist_ok=True)
    with suppress(FileNotFoundError):
        folder.rename(bin_ / f"{folder.name}.{secrets.token_hex(4)}")
        sync_folder(jobs)
    failpoint("delete.renamed")


def remove_job(jobs: Path, job: str) -> None:
    """See `FolderArtifacts.remove_job`."""
    with suppress(FileNotFoundError):
        for left in list((jobs / REMOVED).iterdir()):
            # Several servers may be over one folder: each removes only what is its own call's job.
            if left.name.rpartition(".")[0] == job:
                remove_tree(left)


def remove_logs(folder: Path) -> None:
    """See `FolderArtifacts.remove_logs`."""
    for name in (*_LOGS, CHECKPOINTS, PARTS):
        remove_tree(folder / name)
    # Last: until then the logs that are left can be read.
    (folder / JOURNAL).unlink(missing_ok=True)


def remove_tree(folder: Path) -> None:
    """Removes a folder that a job has written: folders in it may be read-only, and links in it aren't followed."""
    with suppress(FileNotFoundError):
        if folder.is_symlink():
            folder.unlink()
            return
        try:
            shutil.rmtree(folder)
        except PermissionError:
            _unlock(folder)
            shutil.rmtree(folder)


def _unlock(folder: Path) -> None:
    folder.chmod(0o700)
    for at, folders, _ in os.walk(folder):
        for name in folders:
            if not Path(at, name).is_symlink():
                Path(at, name).chmod(0o700)


def job_space(jobs: Path) -> Iterator[tuple[str, JobSpace]]:
    """Each job's name, and what its files take."""
    for entry in sorted(os.scandir(jobs), key=lambda one: one.name):
        if entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
            with suppress(FileNotFoundError):  # Another request removes the job.
                yield entry.name, space_of(Path(entry.path))


def space_of(folder: Path) -> JobSpace:
    """What the files in a job's folder take. Raises FileNotFoundError for one that is deleted meanwhile."""
    parts = {entry.name: size_of(Path(entry.path)) for entry in os.scandir(folder)}
    outputs = sum(parts.pop(name, 0) for name in (SHOWN, PARTS))
    logs = sum(parts.pop(name, 0) for name in (*_LOGS, JOURNAL))
    return JobSpace(outputs, logs, parts.pop(CHECKPOINTS, 0), sum(parts.values()))


def size_of(place: Path) -> int:
    """Bytes of disk of a file, or of all that lies in a folder. Links aren't followed."""
    total = 0
    with suppress(FileNotFoundError):
        total = place.lstat().st_blocks * _BLOCK
    for at, folders, files in os.walk(place):
        for name in (*folders, *files):
            with suppress(FileNotFoundError):
                total += Path(at, name).lstat().st_blocks * _BLOCK
    return total
