"""The disk below a folder."""

from __future__ import annotations

import os

from drumbeat.node.host.syscalls import call


def settle(folder: str) -> None:
    """Has it take all that was written to the file system of this folder. Raises OSError."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        call("syncfs", opened)
    finally:
        os.close(opened)
