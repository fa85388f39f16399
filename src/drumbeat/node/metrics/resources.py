"""The resources that a node and its ranks use, from /proc (proc(5)), and of GPUs with NVIDIA's driver.

A rank's values are sums over its process and all descendants. Rates are since the previous sample.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from drumbeat.node.metrics.gpus import Gpus
from drumbeat.node.platform.rank_pids import rank_pids

_MIB = 1 << 20
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")

Values = dict[str, float]


@dataclass(frozen=True)
class _Usage:
    """The use of one process. cpu_s, read, written: since its start, `age_s` ago."""

    age_s: float
    cpu_s: float
    memory: int
    read: int
    written: int


class ResourceProbe:
    """Samples one node. folder: on the disk to watch; gpus: the job's, as its ranks see them."""

    def __init__(self, folder: str, gpus: Iterable[str]) -> None:
        self._folder, self._gpus = folder, Gpus(gpus)
        self._at = time.monotonic()
        self._cpu, self._network = _cpu_ticks(), _network_bytes()
        self._usages: dict[int, _Usage] = {}

    def sample(self, supervisor: int) -> tuple[Values, dict[int, Values]]:
        """Returns the values of the node, and those of each rank under this supervisor."""
        gpus, on_gpus = self._gpus.sample()
        now = time.monotonic()
        passed_s, self._at = max(now - self._at, 0.001), now
        ranks = self._ranks(supervisor, passed_s, on_gpus)
        return {**self._node(passed_s), **gpus}, ranks

    # --- the node ---------------------------------------------------------------------------------------------------
    def _node(self, passed_s: float) -> Values:
        (busy, total), self._cpu = self._cpu, _cpu_ticks()
        (received, sent), self._network = self._network, _network_bytes()
        memory, disk = _memory(), os.statvfs(self._folder)
        used = memory["MemTotal"] - memory["MemAvailable"]
        return {
            "cpu_percent": 100 * (self._cpu[0] - busy) / max(self._cpu[1] - total, 1),
            "memory_mib": used / 1024,
            "memory_percent": 100 * used / memory["MemTotal"],
            "disk_free_mib": disk.f_bavail * disk.f_frsize / _MIB,
            "disk_percent": 100 * (1 - disk.f_bavail / max(disk.f_blocks, 1)),
            "network_received_mib_s": (self._network[0] - received) / _MIB / passed_s,
            "network_sent_mib_s": (self._network[1] - sent) / _MIB / passed_s,
        }

    # --- its ranks --------------------------------------------------------------------------------------------------
    def _ranks(self, supervisor: int, passed_s: float, on_gpus: Mapping[int, float]) -> dict[int, Values]:
        before, self._usages = self._usages, {}
        ranks: defaultdict[int, Values] = defaultdict(lambda: defaultdict(float))
        for pid, rank in rank_pids(supervisor):
            usage = _usage(pid)
            if usage is None:
                continue
            self._usages[pid] = usage
            old, values, over_s = before.get(pid), ranks[rank], passed_s
            if old is None:  # Since the process's start, which may be long ago if another process has sampled before.
                old, over_s = _Usage(0.0, 0.0, 0, 0, 0), max(passed_s, usage.age_s)
            values["cpu_cores"] += (usage.cpu_s - old.cpu_s) / over_s
            values["memory_mib"] += usage.memory / _MIB
            values["disk_read_mib_s"] += (usage.read - old.read) / _MIB / over_s
            values["disk_written_mib_s"] += (usage.written - old.written) / _MIB / over_s
            if pid in on_gpus:
                values["gpu_memory_mib"] += on_gpus[pid]
        return {rank: dict(values) for rank, values in ranks.items()}


def _usage(pid: int) -> _Usage | None:
    """Returns the use of a process, None = it has ended, or isn't readable."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        with open(f"/proc/{pid}/statm", "rb") as file:
            pages = int(file.read().split()[1])
    except (OSError, IndexError):
        return None
    read = written = 0
    with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/io", "rb") as file:
        numbers = dict(line.split(b": ") for line in file.read().splitlines())
        read, written = int(numbers[b"read_bytes"]), int(numbers[b"write_bytes"])
    age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / _TICKS
    return _Usage(age_s, (int(fields[11]) + int(fields[12])) / _TICKS, pages * _PAGE, read, written)


def _cpu_ticks() -> tuple[int, int]:
    """Returns the busy ticks and all ticks of all cores."""
    with open("/proc/stat", "rb") as file:
        ticks = [int(one) for one in file.readline().split()[1:9]]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def _memory() -> dict[str, int]:
    """Returns the numbers of /proc/meminfo, in KiB."""
    with open("/proc/meminfo", encoding="ascii") as file:
        return {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in file)}


def _network_bytes() -> tuple[int, int]:
    """Returns the bytes received and sent on all interfaces but loopback."""
    received = sent = 0
    with open("/proc/net/dev", encoding="ascii") as file:
        for line in file.readlines()[2:]:
            name, _, rest = line.partition(":")
            if name.strip() != "lo":
                fields = rest.split()
                received, sent = received + int(fields[0]), sent + int(fields[8])
    return received, sent
