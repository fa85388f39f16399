"""The load and the description of this machine."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path

_STAT = Path("/proc/stat")
SAMPLE_S = 0.5


def busy_share(seconds: float = SAMPLE_S) -> float:
    """Returns the share of the processors in use over `seconds`; 0 where the system doesn't report it."""
    before = _ticks()
    time.sleep(seconds)
    after = _ticks()
    if before is None or after is None or after[1] <= before[1]:
        return 0.0
    return (after[0] - before[0]) / (after[1] - before[1])


def _ticks() -> tuple[int, int] | None:
    """Returns the busy and all ticks of all processors since the start (proc(5))."""
    try:
        fields = [int(word) for word in _STAT.read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]]
    except (OSError, ValueError):
        return None
    idle = fields[3] + fields[4]
    return sum(fields) - idle, sum(fields)


def describe_machine() -> str:
    """Returns processor, cores, memory and versions, but no name of the machine."""
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    system = f"Linux {platform.release().split('-')[0]}, Python {platform.python_version()}"
    return f"{_processor()}, {cores()} cores, {gib:.0f} GiB; {system}"


def cores() -> int:
    """Returns the number of processors that this process may use."""
    return len(os.sched_getaffinity(0))


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
