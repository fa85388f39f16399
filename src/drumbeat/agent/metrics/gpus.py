"""What the GPUs of a job do, by NVIDIA's management library; nothing on nodes without its driver."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from drumbeat.agent.ground.nvml import Device, Nvml, NvmlError, nvml

_MIB = 1 << 20


class Gpus:
    """Samples of these GPUs, named by number or UUID as in CUDA_VISIBLE_DEVICES."""

    def __init__(self, names: Iterable[str], library: Nvml | None = None) -> None:
        self._devices: dict[str, Device] = {}
        wanted = list(names)
        self._library = (library or nvml()) if wanted else None
        if self._library is None:
            return
        for name in wanted:
            with contextlib.suppress(NvmlError):
                self._devices[name] = self._library.device(name)

    def sample(self) -> dict[str, float]:
        """Returns the values of each GPU by `gpu_<name>_<what>`."""
        values: dict[str, float] = {}
        for name, device in self._devices.items():
            if self._library is not None:
                with contextlib.suppress(NvmlError):  # Some GPUs don't tell all of it.
                    _add(f"gpu_{name}_", self._library, device, values)
        return values

    def memory_mib_of_processes(self) -> dict[int, float]:
        """Returns what each process holds on these GPUs together, by pid, of the processes that the driver names."""
        held: dict[int, float] = {}
        for device in self._devices.values():
            if self._library is not None:
                with contextlib.suppress(NvmlError):
                    for pid, used in self._library.processes(device).items():
                        held[pid] = held.get(pid, 0.0) + used / _MIB
        return held


def _add(prefix: str, library: Nvml, device: Device, values: dict[str, float]) -> None:
    used, total = library.memory(device)
    values[f"{prefix}memory_mib"] = used / _MIB
    values[f"{prefix}memory_percent"] = 100 * used / total
    values[f"{prefix}percent"] = float(library.utilization(device)[0])
    values[f"{prefix}power_w"] = library.power_w(device)
