"""Marks in an attempt's folder: what has been done there. Each counts in the start of the machine that it was made in.

Nothing waits for the disk while files come to a node: after the power failed, a name may stand for an empty file.
"""

from __future__ import annotations

from drumbeat.host.machine import boot


def put(path: str) -> None:
    """It is done. Raises OSError."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(boot())


def is_put(path: str) -> bool:
    """Whether it was done since the machine was started."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read() == boot()
    except (OSError, ValueError):
        return False
