"""The files of jobs and snapshots, in a folder: `jobs/<job>/…` and `snapshots/<2 digits>/<sha256>.tar`.

What a person can fetch has plain names; what is ours has names that begin with a dot.
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
from drumbeat.server.home_folder.job_removal import job_space, remove_job, remove_logs, set_aside_job, space_of
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
from drumbeat.server.home_folder.paths import inside, log_at, one_name, parts_of
from drumbeat.server.home_folder.run_file import RUN_FILES
from drumbeat.server.home_folder.run_files import FolderRunFiles
from drumbeat.server.home_folder.snapshots import Snapshots
from drumbeat.server.home_folder.stored_files import JobSpace, LogChunk, SnapshotSpace, StoredFile

FIRST_LOG = "user_logs/std_log_0.txt"
"""Rank 0's log of the last round under the name that Azure's clients look for: a name only, no second file."""

RUN_FOLDER = f"{SHOWN}/{RUN_FILES}"
_OURS_TO_WRITE = frozenset({SHOWN, "logs", "user_logs"})
_ROUND = re.compile(r"(\d+)\.(\d+)", re.ASCII)
_IDLE = 1024
"""Jobs whose state is kept in memory for a next call."""


class FolderArtifacts:
    """The files of jobs and the snapshots of code and data, for all threads of one process.

    Every path is contained: one that would leave its folder raises ForbiddenError. A disk that refuses raises
    StorageError with its own word for it. now: seconds since the epoch, kept with log pieces.
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
        """The artifacts of MLflow's runs, those of jobs among their outputs."""
        self._logs = OnePerName(lambda job: JobLogs(self._folder(job), now), idle=_IDLE)
        self._outputs = OnePerName(lambda job: OutputFolder(self._folder(job)), idle=_IDLE)
        # A node's files are written and checked under a lock of its own: hashing takes long.
        self._parts = OnePerName(lambda _: None, idle=_IDLE)

    def _folder(self, job: str) -> Path:
        return inside(self._jobs, one_name(job))

    # --- snapshots ---
    def has_snapshot(self, digest: str) -> bool:
        """Whether the content with this SHA-256 is kept whole. That it was asked for now is noted: see
        `remove_snapshot`.
        """
        with refusals(self._root):
            return self._snapshots.ask(digest, self._now())

    def add_snapshot(self, digest: str, pieces: Iterable[bytes]) -> None:
        """Keeps a tar file. Raises ConflictError when the bytes don't have that SHA-256; nothing is kept then."""
        with refusals(self._root):
            self._snapshots.add(digest, pieces)

    def open_snapshot(self, digest: str) -> BinaryIO:
        """The tar file. Raises NotFoundError."""
        with refusals(self._root):
            return self._snapshots.open(digest)

    def remove_snapshot(self, digest: str, *, unasked_since: float) -> bool:
        """Removes a snapshot, unless it came or was asked for after that moment (seconds since the epoch): a job that
        names it may be on its way. Whether it is gone; one that isn't there is.
        """
        with refusals(self._root):
            return self._snapshots.remove(digest, unasked_since)

    def snapshots(self) -> list[SnapshotSpace]:
        """Every snapshot that is kept, by digest."""
        with refusals(self._root):
            return list(self._snapshots.all())

    # --- removing ---
    def job_space(self, job: str | None = None) -> dict[str, JobSpace]:
        """What the files of a job take, or those of each job; one without files isn't there. Looks at every file: it
        may take long.
        """
        with refusals(self._jobs):
            if job is None:
                return dict(job_space(self._jobs))
            try:
                return {job: space_of(self._folder(job))}
            except FileNotFoundError:
                return {}

    def set_aside_job(self, job: str) -> None:
        """Takes all files of a job out of sight at once; they take space until `remove_job`. Idempotent.

        What has the job's name from then on is another job's. Raises StorageError.
        """
        with refusals(self._jobs):
            set_aside_job(self._jobs, self._folder(job))
        self._logs.forget(job)

    def remove_job(self, job: str) -> None:
        """Removes the files of jobs of this name that were set aside, and none that are in sight. Idempotent.

        What a call that was killed has left is removed by the next one. Raises StorageError.
        """
        with refusals(self._jobs):
            remove_job(self._jobs, self._folder(job).name)

    def remove_logs(self, job: str) -> None:
        """Removes the logs and checkpoints of a job, and parts that were sent and never shown; outputs, plan and story
        stay. Idempotent. Raises StorageError.
        """
        with refusals(self._jobs):
            remove_logs(self._folder(job))

    # --- logs ---
    def append_log(self, job: str, file: str, offset: int, data: bytes) -> int:
        """Adds what of `data` (which begins at `offset`) lies beyond the log's size; gives the size afterwards.

        A gap is never made: an offset beyond the size adds nothing. file: the path of a `LogName`.
        """
        log = log_at(file)
        with refusals(self._root):
            # Nothing is added where an agent asks how much there is.
            if data:
                require_room(self._jobs)
            with self._logs.use(job) as logs:
                return logs.append(log, offset, data)

    def settle_logs(self, job: str, attempt: int, round: int, node: int) -> None:
        """The logs of a node's round are on the disk when this returns: soon nobody has them but this store.

        Of a node that has no log nothing is done. Raises StorageError.
        """
        with refusals(self._root):
            settle(self._folder(job), attempt, round, node)

    def log_chunks(self, job: str, *, after: int = 0, limit: int = 1 << 20) -> list[LogChunk]:
        """Pieces of all logs of a job that arrived after position `after`, in order, about `limit` bytes at most."""
        with refusals(self._root):
            return read_chunks(self._folder(job), after, limit)

    def log_end(self, job: str) -> int:
        """The position of the last piece that there is now; 0 = there is none."""
        with refusals(self._root):
            return last_position(self._folder(job))

    def log_start(self, job: str, *, end: int, length: int) -> int:
        """The position after which the fewest pieces up to `end` come that have `length` bytes; 0 = all have fewer.

        No data is read: of a piece that a crash took, the length that it had counts.
        """
        with refusals(self._root):
            return start_position(self._folder(job), end, length)

    # --- outputs ---
    def append_output(
        self, job: str, attempt: int, node: int, path: str, offset: int, data: bytes, hole: int = 0
    ) -> int:
        """Like `append_log`, for an output file that isn't shown before `commit_outputs`. path: below `outputs/`.

        hole: bytes that follow the data, are zero and take no space.

        Raises StaleError when a newer attempt has shown its outputs.
        """
        folder = self._folder(job)
        with refusals(self._root), self._parts.use(_part_name(job, attempt, node)):
            with self._outputs_of(job) as outputs:
                outputs.admit(attempt)
            place = part_place(folder, attempt, node, path)
            require_room(self._jobs)
            place.parent.mkdir(0o700, parents=True, exist_ok=True)
            return append_beyond(place, offset, data, hole)

    def commit_outputs(self, job: str, attempt: int, node: int, files: dict[str, tuple[int, str]]) -> list[str]:
        """Shows the node's outputs at once if every file has the size and SHA-256 that `files` says; gives the paths
        that don't (and shows nothing): one that can't become right begins again at offset 0. A path that a lower node
        gave already keeps that node's file. A newer attempt's outputs take the place of an older one's, whose late
        commit raises StaleError. The same commit again is the same success.
        """
        described = {path: OutputFile(size, sha256) for path, (size, sha256) in files.items()}
        folder = self._folder(job)
        with refusals(self._root), self._parts.use(_part_name(job, attempt, node)):
            with self._outputs_of(job) as outputs:
                outputs.admit(attempt)
                manifest = outputs.manifest()
            before = manifest.of(node) if manifest.attempt == attempt else {}
            parts = {path: part_place(folder, attempt, node, path) for path in described}
            unfit = find_unfit(parts, described, before)
            if not unfit:
                folder.mkdir(0o700, exist_ok=True)
                with self._outputs_of(job) as outputs:
                    # Another server may have dropped them meanwhile.
                    unfit = [
                        path for path in described if before.get(path) != described[path] and not parts[path].exists()
                    ]
                    if not unfit:
                        outputs.show(attempt, node, described)
            return unfit

    def drop_parts(self, job: str, attempt: int) -> None:
        """Removes what was sent of an attempt's outputs and never shown; its nodes are gone. Nothing is no error."""
        with refusals(self._root):
            for node in numbers(self._folder(job) / PARTS / str(attempt)):
                with self._parts.use(_part_name(job, attempt, node)), self._outputs_of(job) as outputs:
                    outputs.drop(attempt, node)

    @contextmanager
    def _outputs_of(self, job: str) -> Generator[OutputFolder]:
        with self._outputs.use(job) as outputs, outputs.alone():
            yield outputs

    # --- files ---
    def write_text(self, job: str, path: str, text: str) -> None:
        """Puts a small file (`plan.json`, `story.jsonl`) into the job's folder, whole or not at all."""
        with self._place_of_text(job, path) as place:
            put_whole(place, [text.encode()], self._folder(job) / ".text.new")

    def keep_text(self, job: str, path: str, text: str) -> str:
        """Like `write_text`, but what is there already stays, whoever else writes it at the same time; gives that."""
        with self._place_of_text(job, path) as place:
            if _is_file(place):
                return place.read_text()
            put_whole(place, [text.encode()], self._folder(job) / ".text.new")
            return text

    @contextmanager
    def _place_of_text(self, job: str, path: str) -> Generator[Path]:
        """Where it may be written, by nobody else meanwhile."""
        first, *_ = parts_of(path)
        if first.startswith(".") or first in _OURS_TO_WRITE:
            raise ForbiddenError(f"{first} isn't written as text", where=path)
        folder = self._folder(job)
        with refusals(self._root):
            folder.mkdir(0o700, parents=True, exist_ok=True)  # It is what locks the job's files.
        with refusals(self._root), self._outputs_of(job):
            place = inside(folder, path)
            place.parent.mkdir(0o700, parents=True, exist_ok=True)
            yield place

    def files(self, job: str) -> list[StoredFile]:
        """Everything that a person can fetch of a job, by path."""
        folder = self._folder(job)
        with refusals(self._root):
            with self._outputs_of(job) as outputs:
                shown = {f"{SHOWN}/{path}": winner.kept for path, winner in outputs.shown.items()}
            found = {path: kept.size for path, kept in shown.items()}
            found.update(_plain_files(folder))
            found.update((f"{RUN_FOLDER}/{path}", size) for path, size in _plain_files(folder / RUN_FOLDER))
            first = _first_log(folder)
            if first in found:
                found[FIRST_LOG] = found[first]
        digests = {path: kept.sha256 for path, kept in shown.items()}
        return [StoredFile(path, size, digests.get(path, "")) for path, size in sorted(found.items())]

    def open_file(self, job: str, path: str) -> Path:
        """The file's place. Raises NotFoundError, ForbiddenError."""
        first, *rest = parts_of(path)
        folder = self._folder(job)
        with refusals(self._root):
            if first == SHOWN and rest[:1] != [RUN_FILES]:
                with self._outputs_of(job) as outputs:
                    is_there = "/".join(rest) in outputs.shown
            else:
                path = (_first_log(folder) or path) if path == FIRST_LOG else path
                is_there = not first.startswith(".")
            place = inside(folder, path)
            if not is_there or not _is_file(place):
                raise NotFoundError(
                    f"job {job} has no file {path}", fix="See `drumbeat download` for those that it has."
                )
            return place


def _part_name(job: str, attempt: int, node: int) -> str:
    return f"{one_name(job)}/{attempt}/{node}"


def _plain_files(folder: Path) -> Iterator[tuple[str, int]]:
    """Path and size of what lies in a job's folder under plain names, outputs aside. Links aren't followed.

    What has a name that isn't UTF-8, which ranks can give their checkpoints, is left out: no message can carry it.
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
    """Returns the status of a plain file; None = it isn't one, or is gone by now."""
    try:
        status = place.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status if stat.S_ISREG(status.st_mode) else None


def _first_log(folder: Path) -> str | None:
    """Rank 0's log of the last round that has one."""
    rounds = [found for entry in (folder / "logs").glob("*") if (found := _ROUND.fullmatch(entry.name))]
    newest_first = sorted(((int(found[1]), int(found[2])) for found in rounds), reverse=True)
    logs = (LogName(*attempt_and_round, 0, 0).path for attempt_and_round in newest_first)
    return next((log for log in logs if _is_file(folder / log)), None)
