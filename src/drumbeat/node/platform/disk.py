"""The disk below a folder."""

from __future__ import annotations

import os

from drumbeat.node.host.syscalls import call


def settle(folder: str) -> None:
    """Flushes the file system of a folder to disk. Raises OSError."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        call("syncfs", opened)
    finally:
        os.close(opened)
