"""Removes environments that have been unused for long or are too many; never one that a live job has pinned."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from drumbeat.node.environments.folders import EnvironmentFolder

FAILED_S = 3600.0
"""How long a failure's reason is kept."""


@dataclass(frozen=True)
class Bounds:
    """The limits of what is kept: time unused, number, total size."""

    unused_s: float = 30 * 86400.0
    count: int = 40
    size: int = 200 << 30


def collect(
    folder: str,
    now: float,
    bounds: Bounds | None = None,
    open_folder: Callable[[str], EnvironmentFolder] = EnvironmentFolder,
) -> list[str]:
    """Removes environments beyond the bounds, longest unused first; returns the removed folders.

    open_folder: returns the EnvironmentFolder of a folder.
    """
    bounds = bounds or Bounds()
    kept = sorted(places(folder, open_folder), key=lambda one: one[0])
    count, size = len(kept), sum(record["size"] for _, _, record in kept)
    removed: list[str] = []
    for used_at, place, record in kept:
        if now - used_at < bounds.unused_s and count <= bounds.count and size <= bounds.size:
            break
        if remove_unused(place, used_at, now):
            removed.append(place.folder)
            count, size = count - 1, size - record["size"]
    return removed


def places(
    folder: str, open_folder: Callable[[str], EnvironmentFolder] = EnvironmentFolder
) -> Iterator[tuple[float, EnvironmentFolder, dict[str, Any]]]:
    """The environments with the time of their last use and their records. An incomplete one counts as never used."""
    for name in {entry.partition(".")[0] for entry in os.listdir(folder)}:
        place = open_folder(os.path.join(folder, name))
        yield place.used_at(), place, place.made() or {"size": 0}


def remove_unused(place: EnvironmentFolder, used_at: float, now: float) -> bool:
    """Removes an environment, unless it is in use or was used after `used_at`; returns whether it is gone."""
    with place.held(shared=False, waits=None) as lock:
        if lock is None or place.used_at() != used_at or place.pins(now) or _has_just_failed(place, now):
            return False
        place.forget()
        return True


def _has_just_failed(place: EnvironmentFolder, now: float) -> bool:
    """Whether a build failed recently, so that a job may still wait for the reason."""
    failure = place.failed()
    return failure is not None and failure["at"] >= now - FAILED_S


def folder_size(folder: str) -> int:
    """The size on disk of a folder, in bytes. A file that another process removes meanwhile counts 0."""
    total = 0
    for at, _, files in os.walk(folder):
        for name in files:
            with contextlib.suppress(FileNotFoundError):
                total += os.lstat(os.path.join(at, name)).st_blocks * 512
    return total
