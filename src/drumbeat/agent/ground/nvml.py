"""NVIDIA's management library (NVML) by ctypes: what the GPUs of this machine do, without a package and without CUDA.

It comes with the driver, as nvidia-smi does. Reading it makes no context on a GPU, and takes none of its memory.
"""

from __future__ import annotations

import contextlib
import ctypes
from functools import cache
from typing import Any

LIBRARY = "libnvidia-ml.so.1"
_TOO_SMALL = 7
"""NVML_ERROR_INSUFFICIENT_SIZE: there are more processes than room was given for."""
_UNKNOWN = (1 << 64) - 1
"""NVML_VALUE_NOT_AVAILABLE."""
_SPARE_ROOM = 32

Device = ctypes.c_void_p


class NvmlError(Exception):
    """Says which call failed, and NVML's number for why."""


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class _Utilization(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class _Process(ctypes.Structure):
    _fields_ = (
        ("pid", ctypes.c_uint),
        ("used", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


class Nvml:
    """The library, ready for use. Raises NvmlError where it is missing or finds no driver; so do most methods."""

    def __init__(self, library: str = LIBRARY) -> None:
        try:
            self._library = ctypes.CDLL(library)
        except OSError as error:
            raise NvmlError(str(error)) from None
        self._call("nvmlInit_v2")

    def devices(self) -> list[Device]:
        """Returns the GPUs that answer, in the order of nvidia-smi. Raises nothing: one may have failed meanwhile."""
        count, devices = ctypes.c_uint(), list[Device]()
        with contextlib.suppress(NvmlError):
            self._call("nvmlDeviceGetCount_v2", ctypes.byref(count))
        for number in range(count.value):
            with contextlib.suppress(NvmlError):
                devices.append(self.device(str(number)))
        return devices

    def device(self, name: str) -> Device:
        """Returns a GPU by its number or UUID, as in CUDA_VISIBLE_DEVICES."""
        device = Device()
        if name.isdecimal():
            self._call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(int(name)), ctypes.byref(device))
        else:
            self._call("nvmlDeviceGetHandleByUUID", name.encode(), ctypes.byref(device))
        return device

    def memory(self, device: Device) -> tuple[int, int]:
        """Returns the bytes that are in use, and all."""
        memory = _Memory()
        self._call("nvmlDeviceGetMemoryInfo", device, ctypes.byref(memory))
        return memory.used, memory.total

    def utilization(self, device: Device) -> tuple[int, int]:
        """Returns for what part of the last moment a kernel ran, and its memory was read or written, in percent."""
        rates = _Utilization()
        self._call("nvmlDeviceGetUtilizationRates", device, ctypes.byref(rates))
        return rates.gpu, rates.memory

    def power_w(self, device: Device) -> float:
        """Returns what the GPU draws."""
        milliwatts = ctypes.c_uint()
        self._call("nvmlDeviceGetPowerUsage", device, ctypes.byref(milliwatts))
        return milliwatts.value / 1000

    def processes(self, device: Device) -> dict[int, int]:
        """Returns the bytes that each process with a context on the GPU holds, by pid; 0 = the driver doesn't say."""
        room, code = 0, _TOO_SMALL
        found, count = (_Process * 0)(), ctypes.c_uint()
        while code == _TOO_SMALL:
            room += _SPARE_ROOM
            found, count = (_Process * room)(), ctypes.c_uint(room)
            code = self._code("nvmlDeviceGetComputeRunningProcesses_v3", device, ctypes.byref(count), found)
        _check("nvmlDeviceGetComputeRunningProcesses_v3", code)
        return {one.pid: 0 if one.used == _UNKNOWN else one.used for one in found[: count.value]}

    def _call(self, name: str, *arguments: Any) -> None:
        _check(name, self._code(name, *arguments))

    def _code(self, name: str, *arguments: Any) -> int:
        try:
            return int(getattr(self._library, name)(*arguments))
        except AttributeError:
            raise NvmlError(f"this driver has no {name}") from None


def _check(name: str, code: int) -> None:
    if code:
        raise NvmlError(f"{name} failed ({code})")


@cache
def nvml() -> Nvml | None:
    """Returns the library of this machine; None = there is none, as on machines without an NVIDIA GPU."""
    try:
        return Nvml()
    except NvmlError:
        return None
