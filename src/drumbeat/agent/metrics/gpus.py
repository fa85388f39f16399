"""What the GPUs of a job do, by NVIDIA's management library, where the node's Python has nvidia-ml-py (`pynvml`)."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterable
from typing import Any

_MIB = 1 << 20


class Gpus:
    """Samples of these GPUs, named by number or UUID as in CUDA_VISIBLE_DEVICES. Without the library there are none."""

    def __init__(self, names: Iterable[str]) -> None:
        self._handles: dict[str, Any] = {}
        self._library: Any = None
        wanted = list(names)
        if not wanted:
            return
        try:
            self._library = importlib.import_module("pynvml")
            self._library.nvmlInit()
        except Exception:  # noqa: BLE001 (no library, no driver, no right to it: errors of a package that may be missing)
            return
        for name in wanted:
            with contextlib.suppress(Exception):
                self._handles[name] = self._handle(name)

    def _handle(self, name: str) -> Any:
        if name.isdecimal():
            return self._library.nvmlDeviceGetHandleByIndex(int(name))
        return self._library.nvmlDeviceGetHandleByUUID(name)

    def sample(self) -> dict[str, float]:
        """Returns the values of each GPU by `gpu_<name>_<what>`."""
        values: dict[str, float] = {}
        for name, handle in self._handles.items():
            with contextlib.suppress(Exception):  # Some GPUs don't tell all of it.
                self._add(f"gpu_{name}_", handle, values)
        return values

    def memory_mib_of_processes(self) -> dict[int, float]:
        """Returns what each process holds on these GPUs together, by pid, of the processes that the driver names."""
        held: dict[int, float] = {}
        for handle in self._handles.values():
            with contextlib.suppress(Exception):
                for process in self._library.nvmlDeviceGetComputeRunningProcesses(handle):
                    # None where the driver doesn't tell, as in a container of its own.
                    held[process.pid] = held.get(process.pid, 0.0) + (process.usedGpuMemory or 0) / _MIB
        return held

    def _add(self, prefix: str, handle: Any, values: dict[str, float]) -> None:
        library = self._library
        memory = library.nvmlDeviceGetMemoryInfo(handle)
        values[f"{prefix}memory_mib"] = memory.used / _MIB
        values[f"{prefix}memory_percent"] = 100 * memory.used / memory.total
        values[f"{prefix}percent"] = float(library.nvmlDeviceGetUtilizationRates(handle).gpu)
        values[f"{prefix}power_w"] = library.nvmlDeviceGetPowerUsage(handle) / 1000
