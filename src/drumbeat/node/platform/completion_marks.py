"""Marks in an attempt's folder for finished work. Each counts until the machine restarts.

Staging doesn't wait for the disk: after a power failure, a name may refer to an empty file.
"""

from __future__ import annotations

import contextlib
import os
import time

from drumbeat.node.host.machine import boot

PREPARED = "prepared"
_AFTER_S = 60.0
"""How long after the machine's start an empty mark doesn't count: clocks are being set then, and a shared disk has
another one.
"""


def put(path: str) -> None:
    """Marks the work as done. Raises OSError."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(boot())


def is_put(path: str) -> bool:
    """Whether the work was done since the machine started."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
            return text == boot() or (not text and _is_since_boot(os.fstat(file.fileno()).st_mtime))
    except (OSError, ValueError):
        return False


def take(path: str) -> None:
    """Removes the mark. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _is_since_boot(at: float) -> bool:
    """Whether an empty mark, as earlier versions wrote them, counts; in doubt it doesn't, because power failures empty
    files.
    """
    return 0 <= time.time() - at < time.clock_gettime(time.CLOCK_BOOTTIME) - _AFTER_S
