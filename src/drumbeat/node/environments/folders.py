"""Where environments lie on a node: `environments/<key>` in the cache, a lock beside each, pins of those who use it.

- `<key>/made`: written last; what has none isn't whole
- `<key>.lock`: held alone by whoever makes or removes it, shared by whoever begins to use it
- `<key>.pins/`: of the attempts that use it (`node/platform/pins.py`)
- `<key>.failed`: why the last one who tried couldn't make it
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
"""How long a pin of another machine, whose folders can't be seen from here, is believed."""

_LOCK, _PINS, _FAILED, _MADE = ".lock", ".pins", ".failed", "made"


@dataclass(frozen=True)
class EnvironmentFolder:
    """The folder of one environment, complete or not."""

    folder: str

    @property
    def python(self) -> str:
        """Its interpreter."""
        return f"{self.folder}/bin/python"

    # --- made ---------------------------------------------------------------------------------------------------------
    def made(self) -> dict[str, Any] | None:
        """What `mark_made` wrote; None = it isn't there, or its interpreter has gone since."""
        return self.told() if os.access(self.python, os.X_OK) else None

    def told(self) -> dict[str, Any] | None:
        """What `mark_made` wrote, whether or not it is there yet."""
        return _read(f"{self.folder}/{_MADE}")

    def mark_made(self, told: dict[str, Any]) -> None:
        """It is whole from now on, whatever happens. Raises OSError."""
        disk.settle(self.folder)  # The mark is believed for ever, and so all that it speaks for.
        part = f"{self.folder}/{_MADE}.part"
        with open(part, "w", encoding="utf-8") as file:
            json.dump(told, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, f"{self.folder}/{_MADE}")
        _sync(self.folder)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.folder + _FAILED)

    def unmake(self) -> None:
        """Removes it; first of all its mark. The caller holds it alone."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{self.folder}/{_MADE}")
        if os.path.lexists(self.folder):
            shutil.rmtree(self.folder)

    def forget(self) -> None:
        """Removes all that speaks of it. The caller holds it alone."""
        self.unmake()
        shutil.rmtree(self.folder + _PINS, ignore_errors=True)
        above, name = os.path.split(self.folder)
        for entry in os.listdir(above):
            # With what a maker that was killed left beside it; the lock last: an agent that takes it makes it again.
            if entry.startswith(f"{name}.") and entry != name + _LOCK:
                with contextlib.suppress(OSError):
                    os.unlink(f"{above}/{entry}")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.folder + _LOCK)

    # --- failed -------------------------------------------------------------------------------------------------------
    def mark_failed(self, sentence: str, tail: str) -> None:
        """For those who wait for it."""
        with open(self.folder + _FAILED, "w", encoding="utf-8") as file:
            json.dump({"what": sentence, "tail": tail, "at": time.time()}, file)

    def failed(self) -> dict[str, Any] | None:
        """What was written there last; another failure is another value, for it has another time (`at`)."""
        return _read(self.folder + _FAILED)

    # --- use ----------------------------------------------------------------------------------------------------------
    def use(self, root: str) -> None:
        """Pins it for the attempt in `root`, and notes that it was used now. The caller holds it shared."""
        self._pins.put(root, {})
        os.utime(f"{self.folder}/{_MADE}")

    def used_at(self) -> float:
        """When it was used last, 0 = never."""
        try:
            return os.stat(f"{self.folder}/{_MADE}").st_mtime
        except FileNotFoundError:
            return 0.0

    def pins(self, now: float) -> list[str]:
        """The folders of the attempts that may be using it; pins that count no more are removed."""
        return [str(said["root"]) for said in self._pins.read(now)]

    @property
    def _pins(self) -> Pins:
        return Pins(self.folder + _PINS, ELSEWHERE_S)

    # --- locks --------------------------------------------------------------------------------------------------------
    @contextlib.contextmanager
    def held(self, *, shared: bool, waits: Callable[[], None] | None) -> Generator[int | None]:
        """The open lock. waits: called again and again while another process has it; None = gives None then."""
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
