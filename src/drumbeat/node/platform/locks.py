"""Files that processes lock against each other. A lock is released when its process ends, however it ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Generator


def take(path: str, *, shared: bool = False, create: bool = True) -> int | None:
    """The open, locked file; None = another process has locked it, or `create` is off and there is no file.

    The file still has that name when the lock is taken: a process may remove a lock file only while it holds it.
    """
    while True:
        try:
            lock = _open(path, create=create)
        except FileNotFoundError:
            if create:
                raise
            return None
        try:
            fcntl.flock(lock, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(lock), os.stat(path)):
                return lock
        except BlockingIOError:
            os.close(lock)
            return None
        except FileNotFoundError:  # Removed between open and lock.
            pass
        os.close(lock)


def is_held(path: str) -> bool:
    """Whether some process has locked the file. The check itself locks an existing file for an instant."""
    lock = take(path, create=False)
    if lock is not None:
        os.close(lock)
    return lock is None and os.path.exists(path)


@contextlib.contextmanager
def alone(path: str) -> Generator[None]:
    """Waits for the lock on a file that is never removed, and holds it inside the block."""
    lock = _open(path, create=True)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _open(path: str, *, create: bool) -> int:
    return os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o600)
