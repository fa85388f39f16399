"""Copies the complete files of a checkpoint folder, from which interrupted saves are restored.

The copies are in the folder itself, below `.last-good`: there they are on the same file system, so that one rename
restores a file, and they move with the folder. A file has one copy, and of a series (`epoch-1.pt`, `epoch-2.pt`, …)
only the files of the newest save have one, unless the script writes the same names again. A hard link would not do:
`open(path, "wb")` truncates the file that it points to.

The job's key `copies_gib` limits their size; its default is in `jobfile/job/extensions.py`.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import BinaryIO

from drumbeat.model.failpoints import failpoint
from drumbeat.model.folder_layout import LAST_GOOD
from drumbeat.model.sparse_files import extend, hole_length
from drumbeat.node.platform import locks
from drumbeat.node.torn_files.formats import SHORTEST_BYTES, Content, content
from drumbeat.node.torn_files.saved_files import FileState, saved_files, series

# Restores the files of a checkpoint folder whose save was interrupted, from their copies.

ASIDE, CHECK_LOCK = "aside", "check.lock"


class TornFiles:
    """The torn files of one checkpoint folder: starts of interrupted saves."""

    def __init__(self, root: str) -> None:
        self._root, self._folder = root, f"{root}/{LAST_GOOD}"
        self._copies = f"{self._folder}/{COPIES}"

    def restore(self) -> list[str]:
        """Replaces each torn file with its copy, or moves it aside if it has none; returns a message for each.

        No rank may run. Raises OSError.
        """
        if not self._torn():
            return []
        os.makedirs(self._folder, 0o700, exist_ok=True)
        with locks.alone(f"{self._folder}/{CHECK_LOCK}"):
            torn = self._torn()  # An agent of another node may have been first.
            return [self._replaced(path) for path in sorted(torn)]

    def close(self) -> None:
        """Removes the copies, unless a file is torn: then the next attempt restores it. Raises OSError.

        Does nothing while the agent of another node, or of the next attempt, makes copies here.
        """
        lock = hold(self._folder)
        if lock is None:
            return
        try:
            if not self._torn():
                shutil.rmtree(self._copies if os.path.isdir(f"{self._folder}/{ASIDE}") else self._folder)
        finally:
            os.close(lock)

    def _torn(self) -> list[str]:
        files, copies = saved_files(self._root), saved_files(self._copies)
        return [path for path, state in files.items() if self._is_torn(path, state, copies.get(path))]

    def _is_torn(self, path: str, state: FileState, copy: FileState | None) -> bool:
        if state == copy:
            return False
        if copy and state.bytes < SHORTEST_BYTES:  # Only the copy shows the format.
            return judge(f"{self._copies}/{path}") is Content.WHOLE
        return judge(f"{self._root}/{path}") is Content.TORN

    def _replaced(self, path: str) -> str:
        try:
            return self._replace(path)
        except OSError as error:
            return f"{path} is the start of an interrupted save, and can't be restored: {error}"

    def _replace(self, path: str) -> str:
        place, copy, aside = (f"{folder}/{path}" for folder in (self._root, self._copies, f"{self._folder}/{ASIDE}"))
        cut = f"{path} ({format_size(os.path.getsize(place))}) is the start of an interrupted save"
        if not os.path.exists(copy):
            os.makedirs(os.path.dirname(aside), exist_ok=True)
            os.replace(place, aside)
            return f"{cut}; it has no earlier complete version, and was moved to {LAST_GOOD}/{ASIDE}"
        status = os.stat(copy)
        os.replace(copy, place)
        failpoint("checkpoint.put_back")
        saved = datetime.fromtimestamp(status.st_mtime, UTC)
        return f"{cut}; it was restored as of {saved:%Y-%m-%d %H:%M:%S} UTC ({format_size(status.st_size)})"


COPIES, LOCK, PART = "files", "watch.lock", ".part"
_PIECE = 64 << 20
_FREE_SHARE = 2
"""A file is copied only if this multiple of its size is free: the disk's last space belongs to the ranks."""
_GONE_S = 60.0
"""How long a copy outlives its file: a script may remove a file before it saves it again."""
_SAME_SAVE_S = 60.0
"""Files of a series that are written within this time may belong to one save (`layer-1.pt`, `layer-2.pt`)."""


class FileCopies:
    """The copies of one checkpoint folder. say: is called with messages for users, by file."""

    def __init__(self, root: str, limit_bytes: int, say: Callable[[str, str], None]) -> None:
        self._root, self._limit, self._say = root, limit_bytes, say
        self._folder = f"{root}/{LAST_GOOD}"
        self._copies = f"{self._folder}/{COPIES}"
        self._before = dict[str, FileState]()
        self._judged = dict[str, tuple[FileState, Content]]()
        self._rewritten = set[str]()
        self._gone_since = dict[str, float]()

    def hold(self) -> int | None:
        """Returns the lock of the one agent that makes copies here, None = another one has it. Raises OSError."""
        return hold(self._folder)

    def look(self, is_over: Callable[[], bool]) -> None:
        """Updates the copies of files that are complete and have not changed since the last check.

        is_over: whether to stop early. Raises OSError.
        """
        files, copies = saved_files(self._root), saved_files(self._copies)
        still = {path: state for path, state in files.items() if self._before.get(path) == state}
        self._before = files
        self._rewritten |= {path for path, copy in copies.items() if path in files and files[path] != copy}
        for path in self._to_keep(still):
            if copies.get(path) != still[path] and not is_over() and self._copy(path, still[path], copies, is_over):
                copies[path] = still[path]
        self._prune(files, copies)

    def _to_keep(self, still: Mapping[str, FileState]) -> list[str]:
        """Returns the complete files that should have a copy, newest first."""
        wanted, newest = list[str](), dict[str, int]()
        for path in sorted(still, key=lambda path: still[path].mtime_ns, reverse=True):
            is_last = _belongs_to_last_save(path, still[path], newest)
            if (is_last or path in self._rewritten) and self._judge(path, still[path]) is Content.WHOLE:
                newest.setdefault(series(path), still[path].mtime_ns)
                wanted.append(path)
        return wanted

    def _judge(self, path: str, state: FileState) -> Content | None:
        cached = self._judged.get(path)
        if cached and cached[0] == state:
            return cached[1]
        judged = judge(f"{self._root}/{path}")
        if judged:
            self._judged[path] = (state, judged)
        return judged

    def _copy(self, path: str, state: FileState, copies: Mapping[str, FileState], is_over: Callable[[], bool]) -> bool:
        """Copies one file, unless it changes meanwhile or space is short; returns whether it did."""
        if not self._has_room(path, state, copies):
            return False
        part = f"{self._folder}/{secrets.token_hex(4)}{PART}"
        try:
            if not _copy_file(f"{self._root}/{path}", part, state, is_over) or is_over():
                return False
            failpoint("checkpoint.copied")
            place = f"{self._copies}/{path}"
            os.makedirs(os.path.dirname(place), exist_ok=True)
            os.replace(part, place)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(part)
        return True

    def _has_room(self, path: str, state: FileState, copies: Mapping[str, FileState]) -> bool:
        others = sum(copy.bytes for name, copy in copies.items() if name != path)
        if others + state.bytes > self._limit:
            self._say(
                path,
                f"with it, copies would take more than {format_size(self._limit)} (drumbeat.checkpoints.copies_gib)",
            )
            return False
        if shutil.disk_usage(self._root).free < _FREE_SHARE * state.bytes:
            self._say(path, "too little of the disk is free")
            return False
        return True

    def _prune(self, files: Mapping[str, FileState], copies: Mapping[str, FileState]) -> None:
        """Removes copies whose files are gone, and those superseded by a newer save of their series.

        It also removes copies of files whose format has changed: nothing would show that one of them is torn.
        """
        now = time.monotonic()
        self._gone_since = {path: self._gone_since.get(path, now) for path in copies if path not in files}
        newest = dict[str, int]()
        for path in sorted(copies, key=lambda path: copies[path].mtime_ns, reverse=True):
            is_last = _belongs_to_last_save(path, copies[path], newest)
            newest.setdefault(series(path), copies[path].mtime_ns)
            is_gone = now - self._gone_since.get(path, now) > _GONE_S
            if is_gone or self._is_other_now(path, files) or not (is_last or path in self._rewritten):
                os.unlink(f"{self._copies}/{path}")

    def _is_other_now(self, path: str, files: Mapping[str, FileState]) -> bool:
        judged = self._judged.get(path)
        if judged is None or judged[0] != files.get(path) or judged[0].bytes < SHORTEST_BYTES:
            return False
        return judged[1] is Content.UNKNOWN


def hold(folder: str) -> int | None:
    """Returns the lock of the one agent that works on the copies in a folder, None = another one has it.

    Raises OSError.
    """
    os.makedirs(folder, 0o700, exist_ok=True)
    lock = locks.take(f"{folder}/{LOCK}")
    # Partial copies of an agent that died.
    for name in os.listdir(folder) if lock is not None else ():
        if name.endswith(PART):
            os.unlink(f"{folder}/{name}")
    return lock


def judge(path: str) -> Content | None:
    """Judges a file; None = it is gone, or unreadable."""
    try:
        return content(path)
    except OSError:
        return None


def _belongs_to_last_save(path: str, state: FileState, newest: Mapping[str, int]) -> bool:
    """Whether a file belongs to the last save of its series. newest: the time of each series' newest file, in
    nanoseconds.
    """
    return newest.get(series(path), state.mtime_ns) - state.mtime_ns <= _SAME_SAVE_S * 1e9


def _copy_file(path: str, part: str, state: FileState, is_over: Callable[[], bool]) -> bool:
    """Copies and syncs a file; returns whether it stayed at this version throughout.

    File systems that can (XFS, Btrfs) share the blocks.
    """
    try:
        source = open(path, "rb")  # noqa: SIM115 (closed below)
    except FileNotFoundError:
        return False
    with source, open(part, "xb") as target:
        if FileState.from_stat(os.fstat(source.fileno())) != state:
            return False
        at = 0
        while at < state.bytes and not is_over():
            at += hole_length(source.fileno(), at, state.bytes)
            copied = _copy_piece(source, target, at, min(state.bytes - at, _PIECE))
            if not copied and at < state.bytes:
                return False
            at += copied
        if at < state.bytes:
            return False
        extend(target.fileno(), at)
        os.fsync(target.fileno())
        # The ranks need the memory more than a copy that no process reads.
        os.posix_fadvise(target.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        status = os.fstat(source.fileno())
        os.fchmod(target.fileno(), status.st_mode & 0o777)
        os.utime(target.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))
        return FileState.from_stat(status) == state


def _copy_piece(source: BinaryIO, target: BinaryIO, at: int, count: int) -> int:
    try:
        return os.copy_file_range(source.fileno(), target.fileno(), count, at, at)
    except OSError:  # This file system doesn't support it.
        os.lseek(target.fileno(), at, os.SEEK_SET)
        return os.sendfile(target.fileno(), source.fileno(), at, count)


def format_size(count: int) -> str:
    """Returns a size for users."""
    for unit, bytes_ in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= bytes_:
            return f"{count / bytes_:.4g} {unit}"
    return f"{count} bytes"
