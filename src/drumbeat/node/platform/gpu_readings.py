"""What a GPU of this machine does at a moment, as the driver says it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from drumbeat.node.platform.nvml import Device, Nvml, NvmlError

T = TypeVar("T")


@dataclass(frozen=True)
class GpuProcess:
    """A process with a context on a GPU."""

    pid: int
    used: int | None = None
    """Bytes that it holds there; None = the driver doesn't say."""
    memory_percent: float | None = None
    """For what part of a moment it read or wrote the GPU's memory; None = the driver doesn't say."""


@dataclass(frozen=True)
class GpuReading:
    """A GPU. None = it doesn't say."""

    name: str
    """As it was asked for."""
    used: int | None = None
    """Bytes of its memory."""
    total: int | None = None
    percent: float | None = None
    """For what part of a moment a kernel ran."""
    memory_percent: float | None = None
    """For what part of a moment its memory was read or written, by any process."""
    power_w: float | None = None
    temperature_c: float | None = None
    processes: tuple[GpuProcess, ...] = ()


def read(library: Nvml, names: Sequence[str] = ()) -> tuple[GpuReading, ...]:
    """Returns the GPUs that answer. names: numbers or UUIDs as in CUDA_VISIBLE_DEVICES, () = all."""
    if not names:
        return tuple(_reading(library, str(number), one) for number, one in enumerate(library.devices()))
    devices = ((name, _told(lambda name=name: library.device(name))) for name in names)
    return tuple(_reading(library, name, device) for name, device in devices if device is not None)


def _reading(library: Nvml, name: str, device: Device) -> GpuReading:
    used, total = _told(lambda: library.memory(device)) or (None, None)
    percent, memory_percent = _told(lambda: library.utilization(device)) or (None, None)  # Not of a divided GPU (MIG).
    power_w = _told(lambda: library.power_w(device))
    temperature_c = _told(lambda: library.temperature_c(device))
    processes = _processes(library, device)
    return GpuReading(name, used, total, percent, memory_percent, power_w, temperature_c, processes)


def _processes(library: Nvml, device: Device) -> tuple[GpuProcess, ...]:
    held = _told(lambda: library.processes(device)) or {}
    percents = _told(lambda: library.memory_percents(device)) or {}
    # One unknown number says that the driver counts in another PID namespace, where ours may be somebody else's.
    is_ours = bool(percents) and all(pid in held or library.is_alive(pid) for pid in percents)
    return tuple(GpuProcess(pid, used, percents.get(pid, 0) if is_ours else None) for pid, used in held.items())


def _told(ask: Callable[[], T]) -> T | None:
    try:
        return ask()
    except NvmlError:
        return None
