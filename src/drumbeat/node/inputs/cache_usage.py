"""Measures what the caches of this machine take, and prunes them by their own rules."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from drumbeat.model.api.server import WarmWorkersView
from drumbeat.model.api.space import Freed, KeptItem, SpaceItem, SpaceKind
from drumbeat.model.errors import StorageError
from drumbeat.node.environments import wheels
from drumbeat.node.environments.garbage_collection import folder_size, places, remove_unused
from drumbeat.node.inputs.cache.eviction import CacheSpace
from drumbeat.node.inputs.cache.files import Files
from drumbeat.node.platform import cache_folders
from drumbeat.node.supervisor import spare_folders

MAX_CACHED_FILES_LISTED = 1000
"""Single files of the data cache that `usage` names; the rest is one sum."""


class LocalCaches:
    """The `MachineCaches` port over the folders of this machine and user.

    home: a folder on the disk of the server's files. measured: kind, name and path of what is only measured.
    """

    def __init__(self, home: str, measured: Sequence[tuple[SpaceKind, str, str]] = ()) -> None:
        self._home, self._measured = home, measured

    def usage(self) -> list[SpaceItem]:
        own = [SpaceItem(kind, name, _size_of(path)) for kind, name, path in self._measured]
        return [*_data_files(), *(item for item, _ in _environments()), *_wheels(), *own]

    def environment(self, key: str) -> SpaceItem | None:
        return next((item for item, content in _environments() if content == key), None)

    def free(self) -> int:
        disk = os.statvfs(self._home)
        return disk.f_bavail * disk.f_frsize

    def spares(self) -> list[WarmWorkersView]:
        return [
            WarmWorkersView(
                "; ".join(one.commands), len(one.interpreters), one.bytes, datetime.fromtimestamp(one.since, UTC)
            )
            for one in spare_folders.listed()
        ]

    def end_spares(self) -> None:
        for one in spare_folders.listed():
            spare_folders.end(one)

    def prune(self, unused_s: float, needed: Mapping[str, str], *, is_dry: bool) -> Freed:
        now = time.time()
        try:
            parts = [
                _prune_data(now - unused_s, is_dry=is_dry),
                _prune_environments(now, unused_s, needed, is_dry=is_dry),
                _prune_wheels(now, unused_s, is_dry=is_dry),
            ]
        except OSError as error:
            fix = "Fix its permissions, or name another folder in DRUMBEAT_CACHE."
            what = f"the cache can't be pruned: {error.strerror or error}"
            raise StorageError(what, where=str(error.filename or cache_folders.folder("")), fix=fix) from error
        items = tuple(item for part in parts for item in part.items)
        kept = tuple(one for part in parts for one in part.kept)
        return Freed(items, kept, sum(item.size for item in items), is_dry)


def _size_of(path: str) -> int:
    """Bytes of disk of a folder; of a file and those beside it whose names go on with its own (a database's log)."""
    if os.path.isdir(path):
        return folder_size(path)
    above, name = os.path.split(path)
    total = 0
    with contextlib.suppress(OSError), os.scandir(above) as entries:
        for entry in entries:
            if entry.name.startswith(name):
                with contextlib.suppress(FileNotFoundError):  # A database removes its log when it is closed.
                    total += entry.stat().st_blocks * 512
    return total


def _at(seconds: float) -> datetime | None:
    return datetime.fromtimestamp(seconds, UTC) if seconds else None


# --- data ---------------------------------------------------------------------------------------------------------
def _data_files() -> Iterator[SpaceItem]:
    folder = cache_folders.data_folder()
    if not os.path.isdir(folder):
        return
    files = Files(folder)
    kept = sorted(files.all(), key=lambda one: -one.size)
    for one in kept[:MAX_CACHED_FILES_LISTED]:
        yield SpaceItem("data cache", one.name, one.size, _at(one.used_at / 1e9))
    if rest := kept[MAX_CACHED_FILES_LISTED:]:
        yield SpaceItem("data cache", f"{len(rest):,} smaller files", sum(one.size for one in rest))
    for name, size in files.parts().items():
        yield SpaceItem("data cache", name, size, note="a part of a file")


def _prune_data(before: float, *, is_dry: bool) -> Freed:
    folder = cache_folders.data_folder()
    if not os.path.isdir(folder):
        return Freed()
    gone, pins = CacheSpace(Files(folder)).clear_unused(int(before * 1e9), is_dry=is_dry)
    items = tuple(SpaceItem("data cache", one.name, one.size, _at(one.used_at / 1e9)) for one in gone)
    jobs = sorted({pin.job for pin in pins})
    why = f"running jobs use them: {', '.join(jobs)}"
    return Freed(items, (KeptItem(f"cached files in {folder}", why),) if jobs else ())


# --- environments -------------------------------------------------------------------------------------------------
def _environments() -> Iterator[tuple[SpaceItem, str]]:
    """Yields each environment with the key of its content; the name of its folder is the item's."""
    folder = cache_folders.folder("environments")
    if not os.path.isdir(folder):
        return
    for used_at, place, written in places(folder):
        size = int(written["size"]) or folder_size(place.folder)
        name = str(written.get("name", "never finished"))
        item = SpaceItem("environment", os.path.basename(place.folder), size, _at(used_at), name)
        yield item, str(written.get("key", ""))


def _prune_environments(now: float, unused_s: float, needed: Mapping[str, str], *, is_dry: bool) -> Freed:
    folder = os.path.abspath(cache_folders.folder("environments"))
    items: list[SpaceItem] = []
    kept: list[KeptItem] = []
    keys = {item.name: (item, key) for item, key in _environments()}
    for used_at, place, _ in list(places(folder)) if keys else ():
        item, key = keys.get(os.path.basename(place.folder), (None, ""))
        if item is None or now - used_at < unused_s:
            continue
        what = f"environment {item.note} ({item.name})"
        if key in needed:
            kept.append(KeptItem(what, f"{needed[key]} needs it"))
        elif pins := place.pins(now):
            kept.append(KeptItem(what, f"a running job uses it, in {pins[0]}"))
        elif is_dry or remove_unused(place, used_at, now):
            items.append(item)
        else:
            kept.append(KeptItem(what, "it is being made, or its failure is being reported"))
    return Freed(tuple(items), tuple(kept))


# --- wheels -------------------------------------------------------------------------------------------------------
def _wheels() -> Iterator[SpaceItem]:
    folder = cache_folders.folder("wheels")
    if os.path.isdir(folder):
        for entry in os.scandir(folder):
            # A build may be over meanwhile, and another process may remove a wheel.
            with contextlib.suppress(FileNotFoundError):
                if entry.is_dir():
                    used_at = entry.stat().st_mtime
                    yield SpaceItem("wheel", entry.name, folder_size(entry.path), _at(used_at))


def _prune_wheels(now: float, unused_s: float, *, is_dry: bool) -> Freed:
    wheels_by_name = {item.name: item for item in _wheels()}
    if is_dry:
        old = [item for item in wheels_by_name.values() if item.used_at and now - item.used_at.timestamp() >= unused_s]
        return Freed(tuple(old))
    gone = wheels.collect(os.path.abspath(cache_folders.folder("wheels")), now, unused_s) if wheels_by_name else []
    return Freed(tuple(wheels_by_name[name] for path in gone if (name := os.path.basename(path)) in wheels_by_name))
