"""Files that other processes read while they are replaced."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets


def write_whole(path: str, text: str, mode: int = 0o700) -> None:
    """Replaces the file atomically. Raises OSError."""
    part = f"{path}.{secrets.token_hex(4)}.part"  # Nodes in separate PID namespaces have the same pids.
    try:
        with open(part, "w", encoding="utf-8", opener=lambda name, how: os.open(name, how, mode)) as file:
            file.write(text)
        os.replace(part, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(part)
        raise


def require_own(folder: str) -> None:
    """Raises OSError if another user created the folder or may read it: it will contain secrets."""
    status = os.lstat(folder)
    if status.st_uid != os.geteuid() or status.st_mode & 0o77:
        raise OSError(errno.EACCES, f"{folder} belongs to another user")
