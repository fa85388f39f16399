"""The kernel's facts about a process in /proc (proc(5)). Nothing here stops it or waits for it."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass

_TICKS = os.sysconf("SC_CLK_TCK")
_NOTHING = ("", "0")


@dataclass(frozen=True)
class ProcessUse:
    """The resources that a process has used since its start."""

    state: str
    cpu_s: float
    main_cpu_s: float
    main_ready_s: float
    """How long the main thread has run or waited for a processor."""
    io_bytes: int
    switches: int
    swap_faults: int
    swapped_mib: float


def usage(pid: int) -> ProcessUse | None:
    """Returns the use of a process, None = it has ended."""
    fields = _fields(f"{pid}/stat")
    if not fields:
        return None
    main = _fields(f"{pid}/task/{pid}/stat") or fields
    status = _table(f"{pid}/task/{pid}/status")
    io = _table(f"{pid}/io")
    return ProcessUse(
        state=fields[0],
        cpu_s=(_exact_cpu_s(pid) or _cpu_s(fields)) + _children_cpu_s(fields),
        main_cpu_s=_cpu_s(main),
        main_ready_s=_ready_s(pid) or _cpu_s(main),
        # Pages of a mapped file are in `read_bytes` and `write_bytes` only, and `wchar` grows when a write has ended,
        # while a long one shows in `write_bytes`. Counting some twice still shows progress.
        io_bytes=sum(_number(io, name) for name in ("rchar", "wchar", "read_bytes", "write_bytes")),
        switches=_number(status, "voluntary_ctxt_switches"),
        swap_faults=int(fields[9]),
        swapped_mib=_number(status, "VmSwap") / 1024,
    )


def waits_in(pid: int, thread: int = 0) -> str:
    """Returns the function of the kernel in which a thread sleeps, by default the main one; "" = unknown."""
    name = _read(f"{pid}/task/{thread or pid}/wchan").strip()
    return "" if name in _NOTHING else name


def threads(pid: int) -> dict[int, int]:
    """Maps a process's own thread ids to those of /proc here; they are equal without namespaces."""
    numbers: dict[int, int] = {}
    with contextlib.suppress(OSError, ValueError):
        for name in os.listdir(f"/proc/{pid}/task"):
            own = _table(f"{pid}/task/{name}/status").get("NSpid", name).split()[-1]
            numbers[int(own)] = int(name)
    return numbers


def inner_pid(pid: int) -> int:
    """Returns the id of a process in its own PID namespace; `pid` if it is in this one."""
    return int(_table(f"{pid}/status").get("NSpid", str(pid)).split()[-1])


def command(pid: int) -> str:
    """Returns the command line as one line, shortened."""
    return " ".join(_read(f"{pid}/cmdline").split("\0")).strip()[:200]


def _exact_cpu_s(pid: int) -> float:
    """Returns the CPU time of the live threads, by the kernel in nanoseconds; 0 = not reported."""
    total = 0
    with contextlib.suppress(OSError, ValueError, IndexError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            total += int(_read(f"{pid}/task/{thread}/schedstat").split()[0])
    return total / 1e9


def _ready_s(pid: int) -> float:
    """Returns how long the main thread has run or waited for a processor; 0 = not reported."""
    words = _read(f"{pid}/task/{pid}/schedstat").split()
    return (int(words[0]) + int(words[1])) / 1e9 if len(words) > 1 else 0.0


def _cpu_s(fields: list[str]) -> float:
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _children_cpu_s(fields: list[str]) -> float:
    """Returns the CPU time of ended children."""
    return (int(fields[13]) + int(fields[14])) / _TICKS


def _fields(path: str) -> list[str]:
    """Returns the fields of a `stat` after the name, which may contain anything."""
    fields = _read(path).rpartition(")")[2].split()
    return fields if len(fields) > 20 else []


def _table(path: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in _read(path).splitlines())
    return {name: rest.strip() for name, _, rest in pairs}


def _number(table: dict[str, str], name: str) -> int:
    word = table.get(name, "0").split(" ")[0]
    return int(word) if word.isdecimal() else 0


def _read(path: str) -> str:
    try:
        with open(f"/proc/{path}", "rb") as file:
            return file.read().decode(errors="replace")
    except OSError:
        return ""
