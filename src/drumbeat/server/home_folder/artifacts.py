"""The files of jobs and snapshots, in a folder: `jobs/<job>/…` and `snapshots/<2 digits>/<sha256>.tar`.

Files that users can download have plain names; internal files have names that begin with a dot.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from drumbeat.model.errors import ForbiddenError, NotFoundError
from drumbeat.model.folder_layout import LAST_GOOD
from drumbeat.model.logs import LogName
from drumbeat.model.wire import is_utf8
from drumbeat.server.home_folder.atomic_files import put_whole, refusals, require_room
from drumbeat.server.home_folder.environment_store import EnvironmentStore
from drumbeat.server.home_folder.job_removal import job_space, measure_job, remove_job, remove_logs, set_aside_job
from drumbeat.server.home_folder.live_objects import OnePerName
from drumbeat.server.home_folder.logs import JobLogs, append_beyond, last_position, read_chunks, settle, start_position
from drumbeat.server.home_folder.output_folder import (
    PARTS,
    SHOWN,
    OutputFile,
    OutputFolder,
    find_unfit,
    numbers,
    part_place,
)
from drumbeat.server.home_folder.paths import inside, log_at, one_name, split_path
from drumbeat.server.home_folder.run_file import RUN_FILES
from drumbeat.server.home_folder.run_files import FolderRunFiles
from drumbeat.server.home_folder.snapshots import Snapshots
from drumbeat.server.home_folder.stored_files import JobSpace, LogChunk, SnapshotSpace, StoredFile

FIRST_LOG = "user_logs/std_log_0.txt"
"""The alias of rank 0's log of the last round that Azure's clients look for. There is no second file."""

RUN_FOLDER = f"{SHOWN}/{RUN_FILES}"
_OURS_TO_WRITE = frozenset({SHOWN, "logs", "user_logs"})
_ROUND = re.compile(r"(\d+)\.(\d+)", re.ASCII)
_IDLE = 1024
"""Number of idle jobs whose state is kept in memory."""


class FolderArtifacts:
    """The files of jobs and the snapshots of code and data. Thread-safe.

    A path that would leave its folder raises ForbiddenError. A disk error raises StorageError with its message.
    now: returns seconds since the epoch, recorded with log pieces.
    """

    def __init__(self, root: Path, *, now: Callable[[], float] = time.time) -> None:
        self._root = root
        self._now = now
        self._jobs = root / "jobs"
        with refusals(root):
            root.mkdir(0o700, parents=True, exist_ok=True)
            self._jobs.mkdir(0o700, exist_ok=True)
            self._snapshots = Snapshots(root / "snapshots")
        self.of_runs = FolderRunFiles(root)
        """The artifacts of MLflow's runs; those of jobs are among their outputs."""
        self.environments = EnvironmentStore(root / "environments")
        """What nodes have installed and hand on to others."""
        self._logs = OnePerName(lambda job: JobLogs(self._folder(job), now), idle=_IDLE)
        self._outputs = OnePerName(lambda job: OutputFolder(self._folder(job)), idle=_IDLE)
        # Each node's files are written and checked under a lock of their own, because hashing takes long.
        self._parts = OnePerName(lambda _: None, idle=_IDLE)

    def _folder(self, job: str) -> Path:
        return inside(self._jobs, one_name(job))

    # --- snapshots ---
    def has_snapshot(self, digest: str) -> bool:
        """Whether the snapshot with this SHA-256 exists. Records the time of this request for `remove_snapshot`."""
        with refusals(self._root):
            return self._snapshots.ask(digest, self._now())

    def add_snapshot(self, digest: str, pieces: Iterable[bytes]) -> None:
        """Stores a tar file. Raises ConflictError, and stores nothing, if the bytes don't have that SHA-256."""
        with refusals(self._root):
            self._snapshots.add(digest, pieces)

    def open_snapshot(self, digest: str) -> BinaryIO:
        """Opens the tar file. Raises NotFoundError."""
        with refusals(self._root):
            return self._snapshots.open(digest)

    def remove_snapshot(self, digest: str, *, unasked_since: float) -> bool:
        """Removes a snapshot, unless it was stored or requested after that moment (seconds since the epoch), as a job
        that names it may be about to be submitted. Returns whether it no longer exists.
        """
        with refusals(self._root):
            return self._snapshots.remove(digest, unasked_since)

    def snapshots(self) -> list[SnapshotSpace]:
        """Returns all snapshots, by digest."""
        with refusals(self._root):
            return list(self._snapshots.all())

    # --- removing ---
    def job_space(self, job: str | None = None) -> dict[str, JobSpace]:
        """Returns the disk usage of a job, or of each job with files. Looks at every file, which may take long."""
        with refusals(self._jobs):
            if job is None:
                return dict(job_space(self._jobs))
            try:
                return {job: measure_job(self._folder(job))}
            except FileNotFoundError:
                return {}

    def set_aside_job(self, job: str) -> None:
        """Moves all files of a job aside atomically; they take space until `remove_job`. Idempotent.

        Afterwards the job's name may be used by another job. Raises StorageError.
        """
        with refusals(self._jobs):
            set_aside_job(self._jobs, self._folder(job))
        self._logs.forget(job)

    def remove_job(self, job: str) -> None:
        """Removes the files of jobs of this name that were set aside, and no others. Idempotent.

        The next call removes the leftovers of an interrupted one. Raises StorageError.
        """
        with refusals(self._jobs):
            remove_job(self._jobs, self._folder(job).name)

    def remove_logs(self, job: str) -> None:
        """Removes the logs and checkpoints of a job, and uncommitted parts of outputs; outputs, plan and events stay.
        Idempotent. Raises StorageError.
        """
        with refusals(self._jobs):
            remove_logs(self._folder(job))

    # --- logs ---
    def append_log(self, job: str, file: str, offset: int, data: bytes, *, keep: int = 0) -> int:
        """Appends the part of `data` (which begins at `offset`) beyond the log's size. Returns the new size.

        An offset beyond the size appends nothing, so there are never gaps. file: the path of a `LogName`. keep: bytes
        of the job's logs beyond which the oldest are dropped; 0 = all are kept.
        """
        log = log_at(file)
        with refusals(self._root):
            # An agent asks for the size with empty data.
            if data:
                require_room(self._jobs)
            with self._logs.use(job) as logs:
                return logs.append(log, offset, data, keep)

    def settle_logs(self, job: str, attempt: int, round: int, node: int) -> None:
        """Flushes the logs of a node's round to the disk, because the node is about to remove its own copies.

        Does nothing for a node without a log. Raises StorageError.
        """
        with refusals(self._root):
            settle(self._folder(job), attempt, round, node)

    def log_chunks(self, job: str, *, after: int = 0, limit: int = 1 << 20) -> list[LogChunk]:
        """Returns pieces of all logs of a job after position `after`, in order of arrival, about `limit` bytes."""
        with refusals(self._root):
            return read_chunks(self._folder(job), after, limit)

    def log_end(self, job: str) -> int:
        """Returns the position of the last piece; 0 = there is none."""
        with refusals(self._root):
            return last_position(self._folder(job))

    def log_start(self, job: str, *, end: int, length: int) -> int:
        """Returns the highest position after which the pieces up to `end` have `length` bytes; 0 = all have fewer.

        No data is read: a piece that was lost in a crash counts with its recorded length.
        """
        with refusals(self._root):
            return start_position(self._folder(job), end, length)

    # --- outputs ---
    def append_output(
        self, job: str, attempt: int, node: int, path: str, offset: int, data: bytes, hole: int = 0
    ) -> int:
        """Appends like `append_log` to an output file, which `commit_outputs` makes visible. path: below `outputs/`.

        hole: number of zero bytes after the data, which take no space.

        Raises StaleError if a newer attempt has committed its outputs.
        """
        folder = self._folder(job)
        with refusals(self._root), self._parts.use(_part_name(job, attempt, node)):
            with self._use_outputs(job) as outputs:
                outputs.admit(attempt)
            place = part_place(folder, attempt, node, path)
            require_room(self._jobs)
            place.parent.mkdir(0o700, parents=True, exist_ok=True)
            return append_beyond(place, offset, data, hole)

    def commit_outputs(self, job: str, attempt: int, node: int, files: dict[str, tuple[int, str]]) -> list[str]:
        """Makes the node's outputs visible atomically if every file has the size and SHA-256 in `files`.

        Otherwise returns the paths that don't match, and shows nothing; a file that can't be completed starts again at
        offset 0. A path that a lower node has committed keeps that node's file. The outputs of a newer attempt replace
        those of an older one, whose late commit raises StaleError. Idempotent.
        """
        described = {path: OutputFile(size, sha256) for path, (size, sha256) in files.items()}
        folder = self._folder(job)
        with refusals(self._root), self._parts.use(_part_name(job, attempt, node)):
            with self._use_outputs(job) as outputs:
                outputs.admit(attempt)
                manifest = outputs.manifest()
            before = manifest.node_files(node) if manifest.attempt == attempt else {}
            parts = {path: part_place(folder, attempt, node, path) for path in described}
            unfit = find_unfit(parts, described, before)
            if not unfit:
                folder.mkdir(0o700, exist_ok=True)
                with self._use_outputs(job) as outputs:
                    # Another process may have dropped them meanwhile.
                    unfit = [
                        path for path in described if before.get(path) != described[path] and not parts[path].exists()
                    ]
                    if not unfit:
                        outputs.show(attempt, node, described)
            return unfit

    def drop_parts(self, job: str, attempt: int) -> None:
        """Removes the uncommitted outputs of an attempt whose nodes are gone. Idempotent."""
        with refusals(self._root):
            for node in numbers(self._folder(job) / PARTS / str(attempt)):
                with self._parts.use(_part_name(job, attempt, node)), self._use_outputs(job) as outputs:
                    outputs.drop(attempt, node)

    @contextmanager
    def _use_outputs(self, job: str) -> Generator[OutputFolder]:
        with self._outputs.use(job) as outputs, outputs.alone():
            yield outputs

    # --- files ---
    def write_text(self, job: str, path: str, text: str) -> None:
        """Writes a small file (`plan.json`, `story.jsonl`) to the job's folder atomically."""
        with self._place_of_text(job, path) as place:
            put_whole(place, [text.encode()], self._folder(job) / ".text.new")

    def keep_text(self, job: str, path: str, text: str) -> str:
        """Writes like `write_text` unless the file exists, also with concurrent writers. Returns the file's text."""
        with self._place_of_text(job, path) as place:
            if _is_file(place):
                return place.read_text()
            put_whole(place, [text.encode()], self._folder(job) / ".text.new")
            return text

    @contextmanager
    def _place_of_text(self, job: str, path: str) -> Generator[Path]:
        """Yields the path to write to, under the lock of the job's files."""
        first, *_ = split_path(path)
        if first.startswith(".") or first in _OURS_TO_WRITE:
            raise ForbiddenError(f"{first} can't be written as text", where=path)
        folder = self._folder(job)
        with refusals(self._root):
            folder.mkdir(0o700, parents=True, exist_ok=True)  # This folder is the lock of the job's files.
        with refusals(self._root), self._use_outputs(job):
            place = inside(folder, path)
            place.parent.mkdir(0o700, parents=True, exist_ok=True)
            yield place

    def files(self, job: str) -> list[StoredFile]:
        """Returns all files of a job that users can download, by path."""
        folder = self._folder(job)
        with refusals(self._root):
            with self._use_outputs(job) as outputs:
                shown = {f"{SHOWN}/{path}": winner.kept for path, winner in outputs.shown.items()}
            sizes = {path: kept.size for path, kept in shown.items()}
            sizes.update(_plain_files(folder))
            sizes.update((f"{RUN_FOLDER}/{path}", size) for path, size in _plain_files(folder / RUN_FOLDER))
            first = _first_log(folder)
            if first in sizes:
                sizes[FIRST_LOG] = sizes[first]
        digests = {path: kept.sha256 for path, kept in shown.items()}
        return [StoredFile(path, size, digests.get(path, "")) for path, size in sorted(sizes.items())]

    def open_file(self, job: str, path: str) -> Path:
        """Returns the path of a file. Raises NotFoundError, ForbiddenError."""
        first, *rest = split_path(path)
        folder = self._folder(job)
        with refusals(self._root):
            if first == SHOWN and rest[:1] != [RUN_FILES]:
                with self._use_outputs(job) as outputs:
                    is_there = "/".join(rest) in outputs.shown
            else:
                path = (_first_log(folder) or path) if path == FIRST_LOG else path
                is_there = not first.startswith(".")
            place = inside(folder, path)
            if not is_there or not _is_file(place):
                raise NotFoundError(
                    f"job {job} has no file {path}", fix=f"Download all its files: drumbeat download {job}"
                )
            return place


def _part_name(job: str, attempt: int, node: int) -> str:
    return f"{one_name(job)}/{attempt}/{node}"


def _plain_files(folder: Path) -> Iterator[tuple[str, int]]:
    """Yields path and size of files with plain names in a job's folder, except outputs. Doesn't follow links.

    Names that aren't UTF-8, which ranks can give their checkpoints, are left out, because JSON can't express them.
    """
    for at, folders, files in os.walk(folder):
        is_top = Path(at) == folder
        hidden = {SHOWN} if is_top else {LAST_GOOD}
        folders[:] = [name for name in folders if not (name in hidden or (is_top and name.startswith(".")))]
        for name in files:
            place = Path(at, name)
            path = place.relative_to(folder).as_posix()
            if not (is_top and name.startswith(".")) and is_utf8(path) and (status := _file_status(place)):
                yield path, status.st_size


def _is_file(place: Path) -> bool:
    return _file_status(place) is not None


def _file_status(place: Path) -> os.stat_result | None:
    """Returns the status of a regular file; None = it isn't one, or doesn't exist any more."""
    try:
        status = place.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status if stat.S_ISREG(status.st_mode) else None


def _first_log(folder: Path) -> str | None:
    """Returns rank 0's log of the last round that has one."""
    rounds = [match for entry in (folder / "logs").glob("*") if (match := _ROUND.fullmatch(entry.name))]
    newest_first = sorted(((int(match[1]), int(match[2])) for match in rounds), reverse=True)
    logs = (LogName(*attempt_and_round, 0, 0).path for attempt_and_round in newest_first)
    return next((log for log in logs if _is_file(folder / log)), None)
