"""A control group (version 2) for the ranks of one round: the kernel ends it as one by `cgroup.kill` (Linux 5.14)."""

from __future__ import annotations

import contextlib
import os
import time

from drumbeat.node.host import processes


class Group:
    """A control group beside this process's. Raises OSError if creating it isn't permitted or the kernel can't kill a
    group.
    """

    def __init__(self, name: str) -> None:
        self.path = f"{_own()}/{name}"
        with contextlib.suppress(FileExistsError):
            os.mkdir(self.path)
        if members(self.path):
            raise OSError(17, "another round is in this control group")
        if not os.path.exists(f"{self.path}/cgroup.kill"):
            os.rmdir(self.path)
            raise OSError(95, "this kernel can't end a control group")

    def enter(self) -> None:
        """Moves the calling process into the group."""
        _write(f"{self.path}/cgroup.procs", "0")

    def members(self) -> list[int]:
        """Returns the processes in the group and in its subgroups."""
        return members(self.path)

    def close(self, *, is_waiting: bool) -> None:
        """Ends the group. is_waiting: waits up to two seconds for its processes to be gone."""
        end(self.path, within_s=2.0 if is_waiting else 0.0)


def members(path: str) -> list[int]:
    """Returns the processes in a group and in its subgroups."""
    pids: list[int] = []
    for folder, _, _ in os.walk(path):
        with contextlib.suppress(OSError), open(f"{folder}/cgroup.procs", encoding="ascii") as file:
            pids += [int(line) for line in file]
    return sorted(pids)


def kill(path: str) -> None:
    """Sends SIGKILL to all processes of a group."""
    with contextlib.suppress(OSError):
        _write(f"{path}/cgroup.kill", "1")


def end(path: str, within_s: float) -> None:
    """Kills all processes of a group and removes it."""
    kill(path)
    for _ in processes.looks(within_s):
        if not members(path):
            break
        time.sleep(0.005)
    for folder, _, _ in os.walk(path, topdown=False):
        with contextlib.suppress(OSError):
            os.rmdir(folder)


def _own() -> str:
    """Returns the folder of this process's group."""
    with open("/proc/self/cgroup", encoding="utf-8") as file:
        paths = [line.rstrip("\n")[3:] for line in file if line.startswith("0::")]
    with open("/proc/self/mounts", encoding="utf-8") as file:
        mounts = [words[1] for line in file if (words := line.split())[2] == "cgroup2"]
    if not paths or not mounts or ".." in paths[0]:
        raise OSError(2, "there are no control groups of version 2")
    return mounts[0] + paths[0].rstrip("/")


def _write(path: str, text: str) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)
