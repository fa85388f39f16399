"""The files of a round's ranks in /dev/shm: recorded while the ranks live, removed after they were killed.

A killed rank can't remove its segments, and their names don't show their owner (MPICH leaves megabytes after each
failed job). So the supervisor records which of the files that are new since the round began are mapped by its ranks, or
are named by the pid of one of them, as torch names entries of a data loader's queue, which no process has mapped. Older
files stay, and so do files that another process has mapped, and all files of a round that ended cleanly.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Sequence

from drumbeat.node.host import processes

SHM = "/dev/shm"  # noqa: S108 (no file is created there)
CHECK_INTERVAL_S = 0.5
"""The minimum interval between two checks of the folder."""
_TICK_NS = 100_000_000
"""Changes this close to each other may have the same time: some kernels count it in ticks."""
_NOTE = "segments.json"

_TORCH = re.compile(r"torch_(\d+)_\d+_\d+")
"""The names of torch's files with the sharing strategy `file_system`: the pid of their process, and two numbers."""

Inode = tuple[int, int]


class Segments:
    """Records the segments of one round at a time."""

    def __init__(self, folder: str) -> None:
        self._note = f"{folder}/{_NOTE}"
        self._before = set[Inode]()
        self._segments: dict[Inode, str] = {}
        self._again: dict[Inode, tuple[float, float]] = {}
        """When a file that no rank has mapped is checked again, and the pause before that: a rank maps a file a moment
        after it creates it, but may be suspended in between.
        """
        self._changed_at = 0
        self._due = 0.0

    def open(self, now: float) -> None:
        """Begins a round."""
        self._before, self._segments, self._again = set(_files()), {}, {}
        self._changed_at, self._due = 0, now + CHECK_INTERVAL_S

    def due_s(self, now: float) -> float:
        """Seconds until the next check."""
        return self._due - now

    def look(self, members: Callable[[], list[int]], now: float, *, is_last: bool = False) -> None:
        """Records the files that these processes have mapped. is_last: they are about to be killed."""
        if now < self._due and not is_last:
            return
        self._due = now + CHECK_INTERVAL_S
        changed_at = _changed_at()
        is_wanted = is_last or any(due <= now for due, _ in self._again.values())
        if changed_at == self._changed_at and not is_wanted:
            return
        self._changed_at = changed_at if abs(time.time_ns() - changed_at) > _TICK_NS else 0
        fresh = {inode: path for inode, path in _files().items() if self._is_new(inode)}
        self._again = {inode: due for inode, due in self._again.items() if inode in fresh}
        new = {inode: path for inode, path in fresh.items() if is_last or self._again.get(inode, (now, 0.0))[0] <= now}
        ours = _owned(members(), new) if new else set[Inode]()
        for inode in new:
            pause = max(CHECK_INTERVAL_S, 2 * self._again.pop(inode, (now, 0.0))[1])
            if inode not in ours:
                self._again[inode] = now + pause, pause
        if ours:
            self._segments |= {inode: new[inode] for inode in ours}
            self._write()

    def close(self, *, is_clean: bool) -> None:
        """Ends the round. is_clean: its ranks left their files on purpose."""
        if not is_clean:
            _remove(self._segments)
        self._segments = {}
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._note)

    def _is_new(self, inode: Inode) -> bool:
        return inode not in self._before and inode not in self._segments

    def _write(self) -> None:
        """Writes the record for the next supervisor. Not synced, because /dev/shm doesn't
        outlive the machine either.
        """
        with contextlib.suppress(OSError), open(self._note, "w", encoding="utf-8") as file:
            json.dump([[*inode, path] for inode, path in self._segments.items()], file)


def clear(folder: str) -> None:
    """Removes the files that a dead supervisor of this folder had recorded."""
    with contextlib.suppress(OSError, ValueError):
        with open(f"{folder}/{_NOTE}", encoding="utf-8") as file:
            _remove({(device, number): path for device, number, path in json.load(file)})
        os.unlink(f"{folder}/{_NOTE}")


def _owned(pids: Sequence[int], new: dict[Inode, str]) -> set[Inode]:
    """Returns the files that the processes have mapped, or that are named by the pid of one of them and of no other."""
    ours = mapped(pids, new)
    makers = {
        inode: int(match[1]) for inode, path in new.items() if (match := _TORCH.fullmatch(os.path.basename(path)))
    }
    if makers:
        makers_of_round = {processes.inner_pid(pid) for pid in pids}
        strangers = {processes.inner_pid(pid) for pid in processes.all_others() if pid not in pids}
        ours |= {inode for inode, maker in makers.items() if maker in makers_of_round - strangers}
    return ours


def mapped(pids: Iterable[int], wanted: Iterable[Inode]) -> set[Inode]:
    """Returns which of these files any of the processes has mapped as shared."""
    missing, shared = set(wanted), set[Inode]()
    for pid in pids:
        shared |= processes.shared_files(pid, under=SHM) & missing
        if shared == missing:
            break
    return shared


def _remove(segments: dict[Inode, str]) -> None:
    """Removes the segments that no process has mapped: nodes of one job on one machine may share segments."""
    existing = {inode: path for inode, path in segments.items() if _inode(path) == inode}
    if not existing:
        return
    used = mapped(processes.all_others(), existing)
    for inode, path in existing.items():
        if inode not in used:
            with contextlib.suppress(OSError):
                os.unlink(path)


def _files() -> dict[Inode, str]:
    """Returns this user's files in the folder."""
    files: dict[Inode, str] = {}
    with contextlib.suppress(OSError), os.scandir(SHM) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                if entry.is_file(follow_symlinks=False) and status.st_uid == os.geteuid():
                    files[status.st_dev, status.st_ino] = entry.path
    return files


def _inode(path: str) -> Inode | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _changed_at() -> int:
    try:
        return os.stat(SHM).st_mtime_ns
    except OSError:
        return 0
