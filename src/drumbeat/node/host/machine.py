"""The resources of this machine: memory, private folders, and the identity of its current boot."""

from __future__ import annotations

import errno
import os
import stat
from functools import cache

TRANSIENT = frozenset(
    (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EIO, errno.ESTALE)
)
"""Transient errors: the machine is out of disk, files, memory or processes, or its disk is unreachable."""


def why_read_only(folder: str | os.PathLike[str]) -> str:
    """The message that a folder, which may not exist yet, is on a read-only file system; "" = it isn't. The kernel
    makes a file system read-only after errors of its disk.
    """
    place = os.path.abspath(folder)
    while not os.path.exists(place) and place != os.path.dirname(place):
        place = os.path.dirname(place)
    is_read_only = os.statvfs(place).f_flag & os.ST_RDONLY
    return f"{os.strerror(errno.EROFS)}: {os.fspath(folder)}" if is_read_only else ""


def is_private(folder: str | os.PathLike[str]) -> bool:
    """Whether the path is a folder of this user that others can't access; a link to one isn't."""
    status = os.lstat(folder)
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077


def memory_mib() -> int:
    """Main memory of this machine, from /proc/meminfo."""
    with open("/proc/meminfo", encoding="ascii") as file:
        return int(file.readline().split()[1]) // 1024


@cache
def boot() -> str:
    """The id of this machine's current boot."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()
