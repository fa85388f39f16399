"""The free memory of this machine and of the control groups of this process (cgroups(7), proc(5))."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator

_UNLIMITED = 1 << 60
_PAGE = os.sysconf("SC_PAGE_SIZE")


def left() -> tuple[int, int]:
    """Returns the available bytes and all bytes of the tightest limit."""
    limits = [_machine_memory(), *_group_memory()]
    return min(limits)


def resident(pid: int) -> int:
    """Returns the bytes of memory that a process uses, 0 if it has ended."""
    with contextlib.suppress(OSError, IndexError), open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * _PAGE
    return 0


def kernel_kills(folders: Iterable[str] | None = None) -> int:
    """Returns how many processes of this process's own control group the kernel has killed at a memory limit.

    The kernel counts a kill in the victim's group, whichever group's limit was reached; in version 2 also in the groups
    above, which contain other processes, too. In a container the names may be the host's while its own group is mounted
    as the top, so missing names are skipped. folders: of the groups, innermost first; None = they are looked up.
    """
    return next((_kills(folder) for folder in (_folders() if folders is None else folders) if os.path.isdir(folder)), 0)


def limit() -> int:
    """Returns the bytes of the lowest memory limit: of the control groups of this process, or the machine's memory."""
    return min(total for _, total in (_machine_memory(), *_group_memory()))


def _kills(folder: str) -> int:
    for name in ("memory.events", "memory.oom_control"):  # Versions 2 and 1.
        with contextlib.suppress(OSError, ValueError), open(f"{folder}/{name}", encoding="ascii") as file:
            counts = dict(line.split() for line in file)
            return int(counts.get("oom_kill", 0))
    return 0


def _machine_memory() -> tuple[int, int]:
    values: dict[str, int] = {}
    with open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            name, _, rest = line.partition(":")
            values[name] = int(rest.split()[0]) * 1024
    return values["MemAvailable"], values["MemTotal"]


def _group_memory() -> Iterator[tuple[int, int]]:
    for folder in _folders():
        limit = _number(f"{folder}/memory.max") or _number(f"{folder}/memory.limit_in_bytes")
        used = _number(f"{folder}/memory.current") or _number(f"{folder}/memory.usage_in_bytes")
        if limit and limit < _UNLIMITED:
            # Unused file pages are reclaimed first.
            yield limit - used + _inactive(folder), limit


def _folders() -> Iterator[str]:
    """Yields the folders of the control groups that count this process's memory, innermost first."""
    with contextlib.suppress(OSError), open("/proc/self/cgroup", encoding="utf-8") as file:
        for line in file:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            if controllers and "memory" not in controllers.split(","):
                continue
            top = "/sys/fs/cgroup" + ("/memory" if controllers else "")
            while path not in ("", "/"):
                yield top + path
                path = os.path.dirname(path)
            yield top


def _number(path: str) -> int:
    with contextlib.suppress(OSError, ValueError), open(path, encoding="ascii") as file:
        return int(file.read())
    return 0


def _inactive(folder: str) -> int:
    with contextlib.suppress(OSError), open(f"{folder}/memory.stat", encoding="ascii") as file:
        for line in file:
            name, _, value = line.partition(" ")
            if name == "inactive_file":
                return int(value)
    return 0
