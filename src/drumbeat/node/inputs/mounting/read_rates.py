"""Measures how fast a mount can be read, and how fast this node's disk is."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

_BLOCK = 1 << 20
MOST, MAX_WAIT_S = 16 << 20, 3.0
"""Bytes and seconds that a measurement takes at most."""
LEAST = 1 << 20
"""Bytes of an input below which a rate would say nothing."""


@dataclass(frozen=True)
class Rates:
    """Bytes per second. size, files: what was read."""

    mount: float
    disk: float
    size: int
    files: int


def measure(paths: Iterable[str], folder: str) -> Rates | None:
    """Reads the files through the mount, and as much from a file in `folder`, not from memory. None = nothing to read.

    Raises OSError.
    """
    began, size, files = time.perf_counter(), 0, 0
    for path in paths:
        files += 1
        with open(path, "rb", buffering=0) as file:
            while not _is_enough(size, began) and (block := file.read(_BLOCK)):
                size += len(block)
        if _is_enough(size, began):
            break
    spent = time.perf_counter() - began
    return Rates(size / spent, _of_disk(f"{folder}/rate", max(size, _BLOCK)), size, files) if size else None


def _is_enough(size: int, began: float) -> bool:
    return size >= MOST or (size > 0 and time.perf_counter() - began >= MAX_WAIT_S)


def _of_disk(place: str, size: int) -> float:
    try:
        with open(place, "wb") as file:
            file.writelines(os.urandom(_BLOCK) for _ in range(-(-size // _BLOCK)))
            file.flush()
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        began, read = time.perf_counter(), 0
        with open(place, "rb", buffering=0) as file:
            while block := file.read(_BLOCK):
                read += len(block)
        return read / (time.perf_counter() - began)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(place)
