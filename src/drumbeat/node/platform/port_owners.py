"""The users whose programs listen at a port of this machine: while a program is down, any user may take its port."""

from __future__ import annotations

import contextlib
import os

_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_LISTENS = "0A"  # TCP_LISTEN


def require_own(port: int) -> None:
    """Raises PermissionError if a user other than this one or root listens at a port."""
    others = listening_users(port) - {0, os.geteuid()}
    if others:
        raise PermissionError(f"user {min(others)} listens at port {port}, not user {os.geteuid()}")


def listening_users(port: int) -> set[int]:
    """The uids of the programs that listen at a port, at any address."""
    users: set[int] = set()
    for table in _TABLES:
        with contextlib.suppress(OSError), open(table, encoding="ascii") as lines:
            users |= users_in(lines.read(), port)
    return users


def users_in(table: str, port: int) -> set[int]:
    """The uids in the text of one of the kernel's tables (proc(5))."""
    rows = [line.split() for line in table.splitlines()[1:]]
    return {int(row[7]) for row in rows if row[3] == _LISTENS and int(row[1].rpartition(":")[2], 16) == port}
