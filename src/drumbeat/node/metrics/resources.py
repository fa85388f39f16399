"""The resources that a node and its ranks use, from /proc (proc(5)), and of GPUs with NVIDIA's driver.

A rank's values are sums over its process and all descendants. Rates are since the previous sample.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from drumbeat.model.agent import Enrolment
from drumbeat.model.metrics import SYSTEM, MetricRecord, Point, PointsLogged, node_rank
from drumbeat.model.mlflow_calls import MlflowRefusal
from drumbeat.model.plan import RankTable
from drumbeat.node.metrics.endpoint import MetricsEndpoint
from drumbeat.node.metrics.folder import MetricsFolder
from drumbeat.node.platform.gpu_reader import gpu_reader
from drumbeat.node.platform.gpu_readings import GpuReading
from drumbeat.node.platform.rank_pids import rank_pids

# --- GPUs ---
#
# The activity of a job's GPUs, by NVIDIA's management library; empty on nodes without its driver.

Read = Callable[[Sequence[str]], Sequence[GpuReading]]


@dataclass(frozen=True)
class GpuSample:
    """The GPUs of a node at a moment. Values that the driver doesn't report are missing."""

    values: Mapping[str, float]
    """By `gpu_<name>_<what>`."""
    held: Mapping[int, float]
    """The MiB that each process holds, by pid, but for those of which a GPU doesn't report it."""
    percents: Mapping[int, Mapping[str, float]]
    """How busy each GPU is on which a process has a context, by pid and GPU."""


class Gpus:
    """Samples GPUs, named by number or UUID as in CUDA_VISIBLE_DEVICES. read: asks the driver."""

    def __init__(self, names: Iterable[str], read: Read | None = None) -> None:
        self._names, self._read = list(names), read or gpu_reader().read

    def sample(self) -> GpuSample:
        """Returns what the driver reports now."""
        readings = self._read(self._names) if self._names else ()
        values = {f"gpu_{one.name}_{what}": value for one in readings for what, value in _values(one).items()}
        processes = [process for one in readings for process in one.processes]
        unknown = {one.pid for one in processes if one.used is None}
        held: dict[int, float] = {}
        for one in processes:
            if one.used is not None and one.pid not in unknown:
                held[one.pid] = held.get(one.pid, 0.0) + one.used / _MIB
        used: dict[int, dict[str, float]] = {}
        for one in readings:
            for process in one.processes:
                if one.percent is not None:
                    used.setdefault(process.pid, {})[one.name] = one.percent
        return GpuSample(values, held, used)


def _values(one: GpuReading) -> dict[str, float]:
    values = {"percent": one.percent, "power_w": one.power_w, "temperature_c": one.temperature_c}
    if one.used is not None and one.total:
        values |= {"memory_mib": one.used / _MIB, "memory_percent": 100 * one.used / one.total}
    return {what: value for what, value in values.items() if value is not None}


# --- sampling ---
#
# The thread that logs the resources of a node and its ranks as metrics, at an interval that suits the job's size.
#
# The job's key `system_metrics`, with a default in `jobfile/job/extensions.py`, turns it off.

INTERVAL_S = 5.0
_POINTS_PER_S = 500
"""The points per second of all nodes of a large job together."""
_POINTS_OF_NODE, _POINTS_OF_RANK = 8, 6


def interval_s(plan: RankTable) -> float:
    """Returns the seconds between two samples of each node."""
    points = _POINTS_OF_NODE * plan.nodes + _POINTS_OF_RANK * plan.world_size
    return max(INTERVAL_S, points / _POINTS_PER_S)


class ResourceSampler:
    """Samples while ranks run; the agent writes their supervisor's pid to the folder."""

    def __init__(self, endpoint: MetricsEndpoint, folder: MetricsFolder, enrolment: Enrolment) -> None:
        self._endpoint, self._folder, self._node = endpoint, folder, enrolment.node
        self._interval_s = interval_s(enrolment.plan)
        self._resources = ResourceProbe(enrolment.root, enrolment.gpus)
        self._step = 0
        self._is_over = threading.Event()

    def end(self) -> None:
        """Ends the thread."""
        self._is_over.set()

    def begin(self) -> None:
        """Starts the thread."""
        threading.Thread(target=self._run, name="resources", daemon=True).start()

    def _run(self) -> None:
        while not self._is_over.wait(self._interval_s):
            if supervisor := self._folder.supervisor_pid():
                self._sample(supervisor)

    def _sample(self, supervisor: int) -> None:
        try:
            node, ranks = self._resources.sample(supervisor)
        except (OSError, KeyError, ValueError):
            return  # This machine doesn't show it.
        if not ranks:
            return
        at_ms, run = time.time_ns() // 1_000_000, self._endpoint.runs.job_run
        self._step += 1

        def record(rank: int, values: Values) -> MetricRecord:
            points = (Point(SYSTEM + name, round(value, 3), self._step, at_ms) for name, value in values.items())
            return PointsLogged(run, rank, tuple(points))

        records = [record(node_rank(self._node), node), *(record(rank, values) for rank, values in ranks.items())]
        try:
            self._endpoint.keep(tuple(records))
        except MlflowRefusal:
            return  # The disk is full; the ranks get that error themselves.


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
    """Samples one node. folder: on the disk to watch; gpus: the job's, as its ranks see them; read: asks the driver."""

    def __init__(self, folder: str, gpus: Iterable[str], read: Read | None = None) -> None:
        self._folder, self._gpus = folder, Gpus(gpus, read)
        self._at = time.monotonic()
        self._cpu, self._network = _cpu_ticks(), _network_bytes()
        self._usages: dict[int, _Usage] = {}

    def sample(self, supervisor: int) -> tuple[Values, dict[int, Values]]:
        """Returns the values of the node, and those of each rank under this supervisor."""
        gpus = self._gpus.sample()
        now = time.monotonic()
        passed_s, self._at = max(now - self._at, 0.001), now
        ranks = self._ranks(supervisor, passed_s, gpus)
        return {**self._node(passed_s), **gpus.values}, ranks

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
    def _ranks(self, supervisor: int, passed_s: float, gpus: GpuSample) -> dict[int, Values]:
        before, self._usages = self._usages, {}
        percents: defaultdict[int, dict[str, float]] = defaultdict(dict)
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
            if pid in gpus.held:
                values["gpu_memory_mib"] += gpus.held[pid]
            percents[rank].update(gpus.percents.get(pid, {}))
        # The driver may count processes in another namespace: then no rank is known to use a GPU, and none not to.
        if any(percents.values()):
            for rank, own in percents.items():
                ranks[rank]["gpu_percent"] = sum(own.values()) / len(own) if own else 0.0
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
