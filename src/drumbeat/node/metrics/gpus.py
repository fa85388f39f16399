"""The activity of a job's GPUs, by NVIDIA's management library; empty on nodes without its driver."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from drumbeat.node.platform.gpu_reader import gpu_reader
from drumbeat.node.platform.gpu_readings import GpuReading

_MIB = 1 << 20

Read = Callable[[Sequence[str]], Sequence[GpuReading]]


class Gpus:
    """Samples GPUs, named by number or UUID as in CUDA_VISIBLE_DEVICES. read: asks the driver."""

    def __init__(self, names: Iterable[str], read: Read | None = None) -> None:
        self._names, self._read = list(names), read or gpu_reader().read

    def sample(self) -> tuple[dict[str, float], dict[int, float]]:
        """Returns the values of each GPU by `gpu_<name>_<what>`, and the MiB that each process holds on them, by pid.

        Values that the driver doesn't report are missing, and so are processes with an unreported value on one of the
        GPUs.
        """
        readings = self._read(self._names) if self._names else ()
        values = {f"gpu_{one.name}_{what}": value for one in readings for what, value in _values(one).items()}
        processes = [process for one in readings for process in one.processes]
        unknown = {one.pid for one in processes if one.used is None}
        held: dict[int, float] = {}
        for one in processes:
            if one.used is not None and one.pid not in unknown:
                held[one.pid] = held.get(one.pid, 0.0) + one.used / _MIB
        return values, held


def _values(one: GpuReading) -> dict[str, float]:
    values = {"percent": one.percent, "power_w": one.power_w, "temperature_c": one.temperature_c}
    if one.used is not None and one.total:
        values |= {"memory_mib": one.used / _MIB, "memory_percent": 100 * one.used / one.total}
    return {what: value for what, value in values.items() if value is not None}
