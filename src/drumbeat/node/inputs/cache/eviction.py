"""Accounts for the space of the cache: which attempts use which files, the limit, and what is evicted for new files.

The files of a living attempt are pinned (`node/platform/pins.py`). Pins are written and files are removed under one
lock, so that no file goes that an attempt relies on. A disk that fills up during a fetch is handled by
`node/inputs/fetching/fetch_threads.py` (`_make_room`).
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from drumbeat.model.errors import RefusedError, StorageError
from drumbeat.model.failpoints import failpoint
from drumbeat.model.input_listing import ListedFile
from drumbeat.node.inputs.cache.files import CachedFile, Files, name_of
from drumbeat.node.inputs.cache.partial_file import forget
from drumbeat.node.platform import locks
from drumbeat.node.platform.pins import Pins

BYTES = "DRUMBEAT_CACHE_BYTES"
ELSEWHERE_S = 7 * 24 * 3600.0
"""How long a pin of another machine, whose folders can't be seen from here, is believed."""
RESERVE = 64 << 20
"""Bytes of its disk that the cache leaves free."""


@dataclass(frozen=True)
class Pin:
    """The files that an attempt uses. files: name to bytes."""

    job: str
    root: str
    files: Mapping[str, int]


@dataclass(frozen=True)
class Held:
    """What the cache holds. kept: complete files. parts: bytes on disk, by name. free: bytes free on the disk.

    bound: the maximum of bytes in the cache.
    """

    kept: Sequence[CachedFile]
    parts: Mapping[str, int]
    free: int
    bound: int


@dataclass(frozen=True)
class EvictionPlan:
    """Files of the cache to remove so that a job's files fit."""

    victims: tuple[CachedFile, ...] = ()
    loose_parts: tuple[str, ...] = ()
    refused: str = ""
    """Why they can never fit, "" = they can."""
    waits_for: str = ""
    """Which files of other jobs they have to wait for, "" = none."""


def judge(wanted: Mapping[str, int], others: Sequence[Pin], held: Held) -> EvictionPlan:
    """Makes room for `wanted` (name to bytes): evicts unpinned files, least recently used first, as few as needed."""
    pinned = {name: size for pin in others for name, size in pin.files.items()}
    cached = {one.name: one.size for one in held.kept}
    loose = sorted((one for one in held.kept if not {one.name} & (pinned.keys() | wanted.keys())), key=_used_at)
    loose_parts = {name: size for name, size in held.parts.items() if name not in pinned and name not in wanted}
    can_go = sum(one.size for one in loose) + sum(loose_parts.values())
    begun = sum(size for name, size in held.parts.items() if name not in loose_parts)
    promised = sum(size for name, size in {**pinned, **wanted}.items() if name not in cached)
    over_bound = sum(cached.values()) + sum(loose_parts.values()) + promised - held.bound
    over_disk = promised - begun - held.free
    total = sum(wanted.values())
    if total > held.bound:
        return EvictionPlan(
            refused=f"{in_words(total)} of inputs are more than the cache may hold, {in_words(held.bound)}"
        )
    lacking = max(over_bound, over_disk)
    if lacking <= 0:
        return EvictionPlan()
    if lacking <= can_go:
        return _make_way(loose, loose_parts, lacking)
    missing = sum(size for name, size in wanted.items() if name not in cached)
    theirs = sum(size for name, size in pinned.items() if name not in wanted)
    if over_disk - can_go > theirs:
        room = in_words(held.free + can_go + begun)
        return EvictionPlan(refused=f"{in_words(missing)} are still to be fetched, and the disk has room for {room}")
    jobs = ", ".join(sorted({pin.job for pin in others}))
    return EvictionPlan(waits_for=f"the cache is full: {in_words(theirs)} of it are in use by {jobs}")


def unused(pins: Sequence[Pin], held: Held, before_ns: int) -> EvictionPlan:
    """Returns what no attempt has pinned: complete files last used before that moment, and interrupted parts."""
    pinned = {name for pin in pins for name in pin.files}
    victims = [one for one in held.kept if one.name not in pinned and one.used_at < before_ns]
    return EvictionPlan(tuple(sorted(victims, key=_used_at)), tuple(sorted(held.parts.keys() - pinned)))


def _used_at(one: CachedFile) -> int:
    return one.used_at


def _make_way(loose: Sequence[CachedFile], loose_parts: Mapping[str, int], lacking: int) -> EvictionPlan:
    lacking -= sum(loose_parts.values())
    victims: list[CachedFile] = []
    for one in loose:
        if lacking <= 0:
            break
        victims.append(one)
        lacking -= one.size
    return EvictionPlan(tuple(victims), tuple(loose_parts))


def in_words(size: int) -> str:
    """`4.5 GB`."""
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size} bytes"


class CacheSpace:
    """Reserves space in one cache for the files of attempts."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self.missing: frozenset[str] = frozenset()
        """Names of the files that the cache lacked when `take` pinned them."""
        self._pins = Pins(os.path.join(files.folder, "pins"), ELSEWHERE_S)

    def take(self, job: str, root: str, wanted: Iterable[ListedFile]) -> str:
        """Pins files for the attempt in `root`, and makes room for those that are missing. "" = done, else what it has
        to wait for; it is asked again then.

        Raises RefusedError for what can never have room.
        """
        sizes = {name_of(file): file.size for file in wanted}
        with locks.alone(os.path.join(self._files.folder, "lock")):
            self._files.sweep()
            others = self._pinned(but_of=root)
            missing = [name for name, size in sizes.items() if not self._files.has(name, size)]
            if missing:
                in_use = {name for pin in others for name in pin.files}
                for name in missing:  # What has the name there is useless.
                    if name not in in_use:
                        self._files.remove(name)
                verdict = judge(sizes, others, self._held())
                if verdict.refused:
                    raise self._too_big(verdict.refused)
                if verdict.waits_for:
                    return verdict.waits_for
                self._clear(verdict)
            self._pins.put(root, {"job": job, "files": sizes})
            self.missing = frozenset(missing)
            failpoint("cache.pinned")
        return ""

    def clear_unused(self, before_ns: int, *, is_dry: bool) -> tuple[list[CachedFile], list[Pin]]:
        """Removes whole files that no attempt has pinned and that were used last before that moment, and parts that
        broke off. What went, or would go with `is_dry`; and the pins that count.
        """
        with locks.alone(os.path.join(self._files.folder, "lock")):
            pins = self._pinned()
            held = self._held()
            verdict = unused(pins, held, before_ns)
            if not is_dry:
                self._clear(verdict)
        parts = [CachedFile(name, held.parts[name], 0) for name in verdict.loose_parts]
        return [*verdict.victims, *parts], pins

    def _too_big(self, what: str) -> RefusedError:
        fix = f"Make room on the node's disk, let the cache have more ({BYTES}), or use less data."
        return RefusedError(what, where=self._files.folder, fix=fix)

    def _clear(self, verdict: EvictionPlan) -> None:
        for one in verdict.victims:
            self._files.remove(one.name)
            failpoint("cache.evicted")
        for name in verdict.loose_parts:
            descriptor = self._files.take_part(name, create=False)
            if descriptor is not None:
                forget(self._files, name)
                os.close(descriptor)

    def _pinned(self, but_of: str | None = None) -> list[Pin]:
        pins = self._pins.read(time.time())
        others = [one for one in pins if but_of is None or not self._pins.belongs_to(one, but_of)]
        return [Pin(one["job"], one["root"], one["files"]) for one in others]

    def _held(self) -> Held:
        disk = os.statvfs(self._files.folder)
        free = max(0, disk.f_bavail * disk.f_frsize - min(RESERVE, disk.f_blocks * disk.f_frsize // 20))
        return Held(list(self._files.all()), self._files.parts(), free, self._bound(free))

    def _bound(self, free: int) -> int:
        named = os.environ.get(BYTES)
        if named is not None:
            return _bytes(named)
        path = os.path.join(self._files.folder, "bound")
        with contextlib.suppress(OSError, ValueError), open(path, encoding="ascii") as file:
            return int(file.read())
        _put(path, str(free // 2))
        return free // 2


def _put(path: str, text: str) -> None:
    part = f"{path}.{os.getpid()}.new"
    with open(part, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.rename(part, path)


def _bytes(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise StorageError(f"{BYTES} is {text!r}, not a number of bytes", fix="Write it like 50000000000.") from None
