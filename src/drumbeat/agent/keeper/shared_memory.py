"""What the ranks of a round have made in /dev/shm: noted while they live, taken away when they were ended by force.

A rank that is killed can't remove its segments, and their names tell nobody whose they are (MPICH leaves megabytes
after each job that fails). So it is looked at which of the files that are new since the round began its ranks have
mapped. What was there before is left alone, and so is what another process still has mapped, and all of a round that
ended well.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterable

from drumbeat.host import processes

SHM = "/dev/shm"  # noqa: S108 (nothing is made there)
LOOK_EVERY_S = 0.5
"""How often it is looked at whether anything has changed there, at most."""
_TICK_NS = 100_000_000
"""Within so much of a change there another one may not show: some kernels tell the time of one in ticks."""
_NOTE = "segments.json"

Inode = tuple[int, int]


class Segments:
    """Those of one round at a time."""

    def __init__(self, folder: str) -> None:
        self._note = f"{folder}/{_NOTE}"
        self._before = set[Inode]()
        self._known: dict[Inode, str] = {}
        self._again: dict[Inode, tuple[float, float]] = {}
        """When a file that no rank has mapped is looked at again, and the pause before that: a rank maps it a moment
        after it has made it, but may stand still meanwhile."""
        self._changed_at = 0
        self._due = 0.0

    def open(self, now: float) -> None:
        """A round begins."""
        self._before, self._known, self._again = set(_files()), {}, {}
        self._changed_at, self._due = 0, now + LOOK_EVERY_S

    def due_s(self, now: float) -> float:
        """Seconds until it is to be looked again."""
        return self._due - now

    def look(self, members: Callable[[], list[int]], now: float, *, is_last: bool = False) -> None:
        """Notes what these processes have mapped. is_last: they are about to be ended."""
        if now < self._due and not is_last:
            return
        self._due = now + LOOK_EVERY_S
        changed_at = _changed_at()
        is_wanted = is_last or any(due <= now for due, _ in self._again.values())
        if changed_at == self._changed_at and not is_wanted:
            return
        self._changed_at = changed_at if abs(time.time_ns() - changed_at) > _TICK_NS else 0
        there = {inode: path for inode, path in _files().items() if self._is_new(inode)}
        self._again = {inode: due for inode, due in self._again.items() if inode in there}
        new = {inode: path for inode, path in there.items() if is_last or self._again.get(inode, (now, 0.0))[0] <= now}
        found = mapped(members(), new) if new else set[Inode]()
        for inode in new:
            pause = max(LOOK_EVERY_S, 2 * self._again.pop(inode, (now, 0.0))[1])
            if inode not in found:
                self._again[inode] = now + pause, pause
        if found:
            self._known |= {inode: new[inode] for inode in found}
            self._write()

    def close(self, *, is_clean: bool) -> None:
        """The round is over. is_clean: what its ranks left, they left on purpose."""
        if not is_clean:
            _remove(self._known)
        self._known = {}
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._note)

    def _is_new(self, inode: Inode) -> bool:
        return inode not in self._before and inode not in self._known

    def _write(self) -> None:
        """For whoever comes after a keeper that was killed. Not synced: /dev/shm doesn't outlive the machine either."""
        with contextlib.suppress(OSError), open(self._note, "w", encoding="utf-8") as file:
            json.dump([[*inode, path] for inode, path in self._known.items()], file)


def clear(folder: str) -> None:
    """Removes what a keeper of this folder had noted that died."""
    with contextlib.suppress(OSError, ValueError):
        with open(f"{folder}/{_NOTE}", encoding="utf-8") as file:
            _remove({(device, number): path for device, number, path in json.load(file)})
        os.unlink(f"{folder}/{_NOTE}")


def mapped(pids: Iterable[int], wanted: Iterable[Inode]) -> set[Inode]:
    """Which of these files any of the processes has mapped so that others see what it writes."""
    left, found = set(wanted), set[Inode]()
    for pid in pids:
        found |= processes.shared_files(pid, under=SHM) & left
        if found == left:
            break
    return found


def _remove(known: dict[Inode, str]) -> None:
    """Those that are still there and that nobody has mapped: nodes of one job on one machine can share them."""
    there = {inode: path for inode, path in known.items() if _inode(path) == inode}
    if not there:
        return
    used = mapped(processes.all_others(), there)
    for inode, path in there.items():
        if inode not in used:
            with contextlib.suppress(OSError):
                os.unlink(path)


def _files() -> dict[Inode, str]:
    """Everything of this user's that lies there."""
    found: dict[Inode, str] = {}
    with contextlib.suppress(OSError), os.scandir(SHM) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                there = entry.stat(follow_symlinks=False)
                if entry.is_file(follow_symlinks=False) and there.st_uid == os.geteuid():
                    found[there.st_dev, there.st_ino] = entry.path
    return found


def _inode(path: str) -> Inode | None:
    try:
        there = os.lstat(path)
    except OSError:
        return None
    return there.st_dev, there.st_ino


def _changed_at() -> int:
    try:
        return os.stat(SHM).st_mtime_ns
    except OSError:
        return 0
