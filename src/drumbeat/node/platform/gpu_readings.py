"""The readings of a GPU of this machine at one moment, as the driver reports them."""

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
    """Bytes of GPU memory that it holds; None = not reported."""
    memory_percent: float | None = None
    """The share of time, in percent, in which it read or wrote the GPU's memory; None = not reported."""


@dataclass(frozen=True)
class GpuReading:
    """The readings of a GPU. None = not reported."""

    name: str
    """The name in the request."""
    used: int | None = None
    """Bytes of its memory in use."""
    total: int | None = None
    percent: float | None = None
    """The share of time, in percent, in which a kernel ran."""
    memory_percent: float | None = None
    """The share of time, in percent, in which any process read or wrote its memory."""
    power_w: float | None = None
    temperature_c: float | None = None
    processes: tuple[GpuProcess, ...] = ()


def read(library: Nvml, names: Sequence[str] = ()) -> tuple[GpuReading, ...]:
    """Returns the GPUs that answer. names: numbers or UUIDs as in CUDA_VISIBLE_DEVICES, () = all."""
    if not names:
        return tuple(_reading(library, str(number), one) for number, one in enumerate(library.devices()))
    devices = ((name, _optional(lambda name=name: library.device(name))) for name in names)
    return tuple(_reading(library, name, device) for name, device in devices if device is not None)


def _reading(library: Nvml, name: str, device: Device) -> GpuReading:
    used, total = _optional(lambda: library.memory(device)) or (None, None)
    # Not available on a divided GPU (MIG).
    percent, memory_percent = _optional(lambda: library.utilization(device)) or (None, None)
    power_w = _optional(lambda: library.power_w(device))
    temperature_c = _optional(lambda: library.temperature_c(device))
    processes = _processes(library, device)
    return GpuReading(name, used, total, percent, memory_percent, power_w, temperature_c, processes)


def _processes(library: Nvml, device: Device) -> tuple[GpuProcess, ...]:
    held = _optional(lambda: library.processes(device)) or {}
    percents = _optional(lambda: library.memory_percents(device)) or {}
    # One unknown number shows that the driver counts in another PID namespace, where our numbers may belong to others.
    is_ours = bool(percents) and all(pid in held or library.is_alive(pid) for pid in percents)
    return tuple(GpuProcess(pid, used, percents.get(pid, 0) if is_ours else None) for pid, used in held.items())


def _optional(ask: Callable[[], T]) -> T | None:
    try:
        return ask()
    except NvmlError:
        return None
