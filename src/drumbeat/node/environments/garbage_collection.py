"""Removes environments that nobody has used for long, or that are too many; never one that a live job has pinned."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from drumbeat.node.environments.folders import EnvironmentFolder

FAILED_S = 3600.0
"""How long it is kept why one couldn't be made."""


@dataclass(frozen=True)
class Bounds:
    """What may be kept: unused for how long, how many, how much in all."""

    unused_s: float = 30 * 86400.0
    count: int = 40
    size: int = 200 << 30


def collect(
    folder: str,
    now: float,
    bounds: Bounds | None = None,
    place_of: Callable[[str], EnvironmentFolder] = EnvironmentFolder,
) -> list[str]:
    """Removes what is beyond the bounds, longest unused first; gives what was removed.

    place_of: gives the place of a folder there.
    """
    bounds = bounds or Bounds()
    kept = sorted(places(folder, place_of), key=lambda one: one[0])
    count, size = len(kept), sum(told["size"] for _, _, told in kept)
    removed: list[str] = []
    for used_at, place, told in kept:
        if now - used_at < bounds.unused_s and count <= bounds.count and size <= bounds.size:
            break
        if remove_unused(place, used_at, now):
            removed.append(place.folder)
            count, size = count - 1, size - told["size"]
    return removed


def places(
    folder: str, place_of: Callable[[str], EnvironmentFolder] = EnvironmentFolder
) -> Iterator[tuple[float, EnvironmentFolder, dict[str, Any]]]:
    """When each was used last, which, and what is written of it. One that was never made whole was never used."""
    for name in {entry.partition(".")[0] for entry in os.listdir(folder)}:
        place = place_of(os.path.join(folder, name))
        yield place.used_at(), place, place.made() or {"size": 0}


def remove_unused(place: EnvironmentFolder, used_at: float, now: float) -> bool:
    """Removes an environment, unless it is in use by now, or has been used since `used_at`; whether it is gone."""
    with place.held(shared=False, waits=None) as lock:
        if lock is None or place.used_at() != used_at or place.pins(now) or _has_just_failed(place, now):
            return False
        place.forget()
        return True


def _has_just_failed(place: EnvironmentFolder, now: float) -> bool:
    """A job may still wait to hear of it."""
    told = place.failed()
    return told is not None and told["at"] >= now - FAILED_S


def size_of(folder: str) -> int:
    """Bytes on the disk of all that lies in a folder. A file that another process removes meanwhile counts nothing."""
    total = 0
    for at, _, files in os.walk(folder):
        for name in files:
            with contextlib.suppress(FileNotFoundError):
                total += os.lstat(os.path.join(at, name)).st_blocks * 512
    return total
