"""Tells whether the GPU of a process computes, or only waits for other ranks or for a kernel that never ends.

A waiting kernel keeps its GPU as busy as a computing one, but reads the same word of memory again and again from a
cache: the GPU's memory is idle. Measured on one H200, as values of the whole GPU: 0 % in endless kernels and in NCCL's
collectives, 13 to 20 % with several trainings at once. Light work with a GPU of its own wasn't measured, and may be
rounded to 0 %.
"""

from __future__ import annotations

from collections.abc import Sequence

from drumbeat.node.platform.gpu_reader import gpu_reader
from drumbeat.node.platform.gpu_readings import GpuProcess, GpuReading

_OWN_SHARE = 0.25
"""A GPU is a process's own if the process holds at least this share of its largest use there: on the first GPU of a
machine, each process may have a context and nothing else.
"""


def now() -> dict[int, float]:
    """Returns the current `memory_percents`; {} if the driver doesn't answer in time."""
    return memory_percents(gpu_reader().read())


def memory_percents(readings: Sequence[GpuReading]) -> dict[int, float]:
    """Returns the share of time in which a process read or wrote the memory of its GPU, by pid, in percent.

    If the driver reports only the whole GPU, the busiest of the process's own GPUs counts. Processes without a GPU are
    missing, and so are those that the driver doesn't report, as in some containers.
    """
    on_gpus: dict[int, list[tuple[GpuReading, GpuProcess]]] = {}
    for reading in readings:
        for process in reading.processes:
            on_gpus.setdefault(process.pid, []).append((reading, process))
    percents = ((pid, _percents(pairs)) for pid, pairs in on_gpus.items())
    return {pid: max(values) for pid, values in percents if values}


def _percents(pairs: Sequence[tuple[GpuReading, GpuProcess]]) -> list[float]:
    sizes = [process.used for _, process in pairs]
    least = 0.0 if None in sizes else _OWN_SHARE * max(one for one in sizes if one is not None)
    percents = [process.memory_percent for _, process in pairs]
    for reading, process in pairs:
        if process.memory_percent is None and (process.used or 0) >= least:
            percents.append(reading.memory_percent)
    return [one for one in percents if one is not None]
