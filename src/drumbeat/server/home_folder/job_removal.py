"""Removes the files of jobs, and measures their disk usage."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from drumbeat.model.failpoints import failpoint
from drumbeat.server.home_folder import log_ring
from drumbeat.server.home_folder.atomic_files import sync_folder
from drumbeat.server.home_folder.logs import JOURNAL
from drumbeat.server.home_folder.output_folder import PARTS, SHOWN
from drumbeat.server.home_folder.stored_files import JobSpace

REMOVED = ".removed"
"""The folder for folders of deleted jobs, until they are removed completely."""

CHECKPOINTS = "checkpoints"
_LOGS = ("logs", "user_logs")
_BLOCK = 512
"""The unit in which `stat` counts a file's disk usage, in bytes."""


def set_aside_job(jobs: Path, folder: Path) -> None:
    """See `FolderArtifacts.set_aside_job`. The folder is renamed, so that it is never visible in part."""
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
            # Several processes may work on one folder, so each removes only folders of its call's job.
            if left.name.rpartition(".")[0] == job:
                remove_tree(left)


def remove_logs(folder: Path) -> None:
    """See `FolderArtifacts.remove_logs`."""
    for name in (*_LOGS, CHECKPOINTS, PARTS):
        remove_tree(folder / name)
    (folder / log_ring.NAME).unlink(missing_ok=True)
    # The journal is removed last, because until then the remaining logs can be read.
    (folder / JOURNAL).unlink(missing_ok=True)


def remove_tree(folder: Path) -> None:
    """Removes a folder that a job has written. Folders in it may be read-only; symbolic links aren't followed."""
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
    """Yields each job's name and disk usage."""
    for entry in sorted(os.scandir(jobs), key=lambda one: one.name):
        if entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
            with suppress(FileNotFoundError):  # Another request is removing the job.
                yield entry.name, measure_job(Path(entry.path))


def measure_job(folder: Path) -> JobSpace:
    """Returns the disk usage of a job's folder. Raises FileNotFoundError if it is deleted meanwhile."""
    parts = {entry.name: measure_size(Path(entry.path)) for entry in os.scandir(folder)}
    outputs = sum(parts.pop(name, 0) for name in (SHOWN, PARTS))
    logs = sum(parts.pop(name, 0) for name in (*_LOGS, JOURNAL, log_ring.NAME))
    return JobSpace(outputs, logs, parts.pop(CHECKPOINTS, 0), sum(parts.values()))


def measure_size(place: Path) -> int:
    """Returns the disk usage of a file or folder in bytes. Doesn't follow links."""
    total = 0
    with suppress(FileNotFoundError):
        total = place.lstat().st_blocks * _BLOCK
    for at, folders, files in os.walk(place):
        for name in (*folders, *files):
            with suppress(FileNotFoundError):
                total += Path(at, name).lstat().st_blocks * _BLOCK
    return total
