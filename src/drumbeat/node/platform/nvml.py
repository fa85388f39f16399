"""NVIDIA's management library (NVML) by ctypes: the state of this machine's GPUs, without a package and without CUDA.

It comes with the driver, like nvidia-smi. Reading creates no context on a GPU, and uses none of its memory. A call may
never return when a driver is broken, so only `gpu_reader_process` makes calls.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import time
from typing import Any

LIBRARY = "libnvidia-ml.so.1"
_TOO_SMALL = 7
"""NVML_ERROR_INSUFFICIENT_SIZE: there are more processes than the buffer holds."""
_UNKNOWN = (1 << 64) - 1
"""NVML_VALUE_NOT_AVAILABLE."""
_CHIP = ctypes.c_int(0)
"""NVML_TEMPERATURE_GPU: the sensor."""
_SPARE_ROOM = 32
_MAX_TRIES = 3
_SEEN_S = 3
"""How far back the processes' use of a GPU is requested."""
_STRIDES = (24, 32, 40)
"""Bytes of one entry in a list of processes: 24 by the header, 32 from some drivers of R535 and R550."""
_UNWRITTEN = 0xA5

Device = ctypes.c_void_p


class NvmlError(Exception):
    """Raised with the failed call and NVML's error number."""


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class _Utilization(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class _Process(ctypes.Structure):
    """The start of an entry, the same in all layouts."""

    _fields_ = (("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong))


class _Use(ctypes.Structure):
    _fields_ = (
        ("pid", ctypes.c_uint),
        ("at_us", ctypes.c_ulonglong),
        ("sm", ctypes.c_uint),
        ("memory", ctypes.c_uint),
        ("encoder", ctypes.c_uint),
        ("decoder", ctypes.c_uint),
    )


class Nvml:
    """The initialized library. Raises NvmlError if it is missing or finds no driver; so do most methods.

    proc: the folder with an entry for each process.
    """

    def __init__(self, library: str = LIBRARY, proc: str = "/proc") -> None:
        self._proc = proc
        try:
            self._library = ctypes.CDLL(library)
        except OSError as error:
            raise NvmlError(str(error)) from None
        self._call("nvmlInit_v2")

    def devices(self) -> list[Device]:
        """Returns the GPUs that answer, in the order of nvidia-smi. Skips failed ones, and raises nothing."""
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
        """Returns the used and the total bytes."""
        memory = _Memory()
        self._call("nvmlDeviceGetMemoryInfo", device, ctypes.byref(memory))
        return memory.used, memory.total

    def utilization(self, device: Device) -> tuple[int, int]:
        """Returns the shares of time, in percent, in which a kernel ran, and in which memory was read or written."""
        rates = _Utilization()
        self._call("nvmlDeviceGetUtilizationRates", device, ctypes.byref(rates))
        return rates.gpu, rates.memory

    def power_w(self, device: Device) -> float:
        """Returns the power draw of the GPU."""
        milliwatts = ctypes.c_uint()
        self._call("nvmlDeviceGetPowerUsage", device, ctypes.byref(milliwatts))
        return milliwatts.value / 1000

    def temperature_c(self, device: Device) -> int:
        """Returns the temperature of the GPU's chip in degrees Celsius."""
        degrees = ctypes.c_uint()
        self._call("nvmlDeviceGetTemperature", device, _CHIP, ctypes.byref(degrees))
        return degrees.value

    def processes(self, device: Device) -> dict[int, int | None]:
        """Returns the bytes that each process with a context on the GPU holds, by pid; None = not reported.

        Numbers of no local process are omitted: the driver may report those of another PID namespace.
        """
        room, count, code = _SPARE_ROOM, ctypes.c_uint(), _TOO_SMALL
        buffer = ctypes.create_string_buffer(0)
        for _ in range(_MAX_TRIES):
            size = room * _STRIDES[-1]
            buffer = ctypes.create_string_buffer(bytes([_UNWRITTEN]) * size, size)
            count.value = room
            code = self._code("nvmlDeviceGetComputeRunningProcesses_v3", device, ctypes.byref(count), buffer)
            if code != _TOO_SMALL:
                break
            room = max(room, count.value) + _SPARE_ROOM
        _check("nvmlDeviceGetComputeRunningProcesses_v3", code)
        entries = _entries(buffer, min(count.value, room))
        return {one.pid: None if one.used == _UNKNOWN else one.used for one in entries if self.is_alive(one.pid)}

    def memory_percents(self, device: Device) -> dict[int, int]:
        """Returns the share of time in which each process read or wrote the GPU's memory, by pid, in percent.

        Processes without a kernel in the last seconds are missing.
        """
        name, count = "nvmlDeviceGetProcessUtilization", ctypes.c_uint()
        since = ctypes.c_ulonglong(int((time.time() - _SEEN_S) * 1e6))
        code = self._code(name, device, None, ctypes.byref(count), since)
        if code != _TOO_SMALL:
            _check(name, code)
        room = count.value + _SPARE_ROOM
        uses, count = (_Use * room)(), ctypes.c_uint(room)
        _check(name, self._code(name, device, uses, ctypes.byref(count), since))
        percents: dict[int, int] = {}
        for use in uses[: min(count.value, room)]:
            if use.memory > 100:
                raise NvmlError(f"{name} gave {use.memory} %")
            percents[use.pid] = max(percents.get(use.pid, 0), use.memory)
        return percents

    def is_alive(self, pid: int) -> bool:
        """Whether a local process has this number."""
        return pid > 0 and os.path.isdir(f"{self._proc}/{pid}")

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


def _entries(buffer: ctypes.Array[ctypes.c_char], count: int) -> list[_Process]:
    """Returns the entries of a list. Their size is the smallest one that covers all written bytes."""
    written = len(buffer.raw.rstrip(bytes([_UNWRITTEN])))
    if not count or not written:
        return []
    stride = next((one for one in _STRIDES if one * count >= written), 0)
    if not stride:
        raise NvmlError(f"{written} bytes were written for {count} processes")
    return [_Process.from_buffer(buffer, number * stride) for number in range(count)]
