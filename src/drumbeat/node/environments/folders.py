"""The folders of environments on a node: `environments/<key>` in the cache, with a lock and pins beside each.

- `<key>/made`: written last; without it the environment is incomplete
- `<key>.lock`: held exclusively while an agent builds or removes it, shared while an agent begins to use it
- `<key>.pins/`: of the attempts that use it (`node/platform/pins.py`)
- `<key>.failed`: the reason of the last failed build
- `<key>.progress`: how far the build is
- `<key>.manifest`: the list of its files, by which other nodes take it over
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

from drumbeat.node.platform import disk, locks
from drumbeat.node.platform.pins import Pins

LOOK_S = 0.05
ELSEWHERE_S = 30 * 86400.0
"""How long a pin of another machine, whose folders can't be checked from here, counts."""

_LOCK, _PINS, _FAILED, _PROGRESS, _MADE = ".lock", ".pins", ".failed", ".progress", "made"


@dataclass(frozen=True)
class EnvironmentFolder:
    """The folder of one environment, complete or not."""

    folder: str

    @property
    def python(self) -> str:
        """The environment's interpreter."""
        return f"{self.folder}/bin/python"

    # --- made ---------------------------------------------------------------------------------------------------------
    def made(self) -> dict[str, Any] | None:
        """The record of a complete environment; None = there is none, or its interpreter is missing."""
        return self.record() if os.access(self.python, os.X_OK) else None

    def record(self) -> dict[str, Any] | None:
        """The record that `mark_made` wrote, even if the interpreter is missing."""
        return _read(f"{self.folder}/{_MADE}")

    def mark_made(self, record: dict[str, Any]) -> None:
        """Marks the environment as complete, durably. Raises OSError."""
        disk.settle(self.folder)  # The mark counts forever, and so does everything that it vouches for.
        part = f"{self.folder}/{_MADE}.part"
        with open(part, "w", encoding="utf-8") as file:
            json.dump(record, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, f"{self.folder}/{_MADE}")
        _sync(self.folder)
        for beside in (_FAILED, _PROGRESS):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.folder + beside)

    def unmake(self) -> None:
        """Removes the environment, its mark first. The caller holds the exclusive lock."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{self.folder}/{_MADE}")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.folder + _PROGRESS)
        if os.path.lexists(self.folder):
            shutil.rmtree(self.folder)

    def forget(self) -> None:
        """Removes all files beside the environment. The caller holds the exclusive lock."""
        self.unmake()
        shutil.rmtree(self.folder + _PINS, ignore_errors=True)
        above, name = os.path.split(self.folder)
        for entry in os.listdir(above):
            # Including what a killed builder left. The lock goes last: an agent that takes it creates it again.
            if entry.startswith(f"{name}.") and entry != name + _LOCK:
                with contextlib.suppress(OSError):
                    os.unlink(f"{above}/{entry}")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.folder + _LOCK)

    # --- failed -------------------------------------------------------------------------------------------------------
    def mark_failed(self, message: str, tail: str) -> None:
        """Records a failed build for the agents that wait for it."""
        with open(self.folder + _FAILED, "w", encoding="utf-8") as file:
            json.dump({"what": message, "tail": tail, "at": time.time()}, file)

    def failed(self) -> dict[str, Any] | None:
        """The last recorded failure; each has its own time (`at`)."""
        return _read(self.folder + _FAILED)

    # --- progress -----------------------------------------------------------------------------------------------------
    def report(self, progress: str) -> None:
        """Records how far a build is for the agents that wait for it."""
        with contextlib.suppress(OSError):  # They wait without it.
            with open(f"{self.folder}{_PROGRESS}.part", "w", encoding="utf-8") as file:
                file.write(progress)
            os.replace(f"{self.folder}{_PROGRESS}.part", self.folder + _PROGRESS)

    def progress(self) -> str:
        """How far the build is, "" = that isn't known."""
        try:
            with open(self.folder + _PROGRESS, encoding="utf-8") as file:
                return file.read()
        except OSError:
            return ""

    # --- use ----------------------------------------------------------------------------------------------------------
    def use(self, root: str) -> None:
        """Pins the environment for the attempt in `root`, and records the use. The caller holds the shared lock."""
        self._pins.put(root, {})
        os.utime(f"{self.folder}/{_MADE}")

    def used_at(self) -> float:
        """The time of the last use, 0 = never."""
        try:
            return os.stat(f"{self.folder}/{_MADE}").st_mtime
        except FileNotFoundError:
            return 0.0

    def pins(self, now: float) -> list[str]:
        """The folders of the attempts that may be using the environment; outdated pins are removed."""
        return [str(pin["root"]) for pin in self._pins.read(now)]

    @property
    def _pins(self) -> Pins:
        return Pins(self.folder + _PINS, ELSEWHERE_S)

    # --- locks --------------------------------------------------------------------------------------------------------
    @contextlib.contextmanager
    def held(self, *, shared: bool, waits: Callable[[], None] | None) -> Generator[int | None]:
        """Takes the lock. waits: is called repeatedly while another process has it; None = yields None then."""
        os.makedirs(os.path.dirname(self.folder), exist_ok=True)
        while (lock := locks.take(self.folder + _LOCK, shared=shared)) is None and waits is not None:
            waits()
            time.sleep(LOOK_S)
        try:
            yield lock
        finally:
            if lock is not None:
                os.close(lock)


def _read(path: str) -> dict[str, Any] | None:
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        return None


def _sync(folder: str) -> None:
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
