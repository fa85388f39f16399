"""Marks in an attempt's folder: what has been done there. Each counts in the start of the machine that it was made in.

Nothing waits for the disk while files come to a node: after the power failed, a name may stand for an empty file.
"""

from __future__ import annotations

import contextlib
import os
import time

from drumbeat.node.host.machine import boot

PREPARED = "prepared"
_AFTER_S = 60.0
"""How long after the machine's start an empty mark counts: clocks are set then, and a shared disk's is another."""


def put(path: str) -> None:
    """It is done. Raises OSError."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(boot())


def is_put(path: str) -> bool:
    """Whether it was done since the machine was started."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
            return text == boot() or (not text and _is_of_this_start(os.fstat(file.fileno()).st_mtime))
    except (OSError, ValueError):
        return False


def take(path: str) -> None:
    """It isn't done any more. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _is_of_this_start(at: float) -> bool:
    """Of an empty mark, as earlier versions put them: in doubt it isn't, for a power failure empties files as well."""
    return 0 <= time.time() - at < time.clock_gettime(time.CLOCK_BOOTTIME) - _AFTER_S
