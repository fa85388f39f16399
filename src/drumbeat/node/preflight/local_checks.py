"""A node's checks of its own machine: a write to its disk, the free space, and its GPUs.

`core/diagnosis/preflight.py` judges the measurements.
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass

from drumbeat.model.preflight import UNKNOWN
from drumbeat.node.platform.unusable_node import UnusableNodeError

WRITTEN_BYTES = 1 << 20
_DEVICE = re.compile(r"nvidia\d+")


@dataclass(frozen=True)
class LocalCheck:
    """A node's findings about its own machine."""

    free_bytes: int = UNKNOWN
    write_ms: int = UNKNOWN
    gpus: int = UNKNOWN


def check(folder: str) -> LocalCheck:
    """Checks the machine. folder: the attempt's. Raises UnusableNodeError if it isn't writable."""
    begun = time.monotonic()
    try:
        _write(f"{folder}/preflight.part")
        space = os.statvfs(folder)
    except OSError as error:
        what = f"the disk accepts no file: {error.strerror or error}"
        raise UnusableNodeError(what, where=folder, fix="Free space there, or repair the disk.") from error
    write_ms = round((time.monotonic() - begun) * 1000)
    return LocalCheck(space.f_bavail * space.f_frsize, write_ms, gpus())


def _write(path: str) -> None:
    """Writes and syncs a file, and removes it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        data = memoryview(os.urandom(WRITTEN_BYTES))
        while data:
            data = data[os.write(descriptor, data) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
        os.unlink(path)


def gpus(devices: str = "/dev", visible: str | None = None) -> int:
    """Returns how many GPUs this process may open; UNKNOWN if they aren't NVIDIA's, or are slices (MIG).

    visible: the value of CUDA_VISIBLE_DEVICES, by default this process's.
    """
    names = os.listdir(devices)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "") if visible is None else visible
    if "kfd" in names or "MIG-" in visible:
        return UNKNOWN
    return sum(bool(_DEVICE.fullmatch(name)) and os.access(f"{devices}/{name}", os.R_OK | os.W_OK) for name in names)
