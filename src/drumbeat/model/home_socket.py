"""The Unix socket in a server's home, where agents and clients on the server's machine call.

The kernel tells both ends which user the other one is. A port of loopback proves nothing: while the server is down,
any user of the machine may listen there.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Generator

SCHEME = "unix:"
"""Begins the address of a server as its machine's agents know it, before the path of the socket."""
NAME = "server.sock"
HOST = "localhost"
"""What `Host` says in a request over the socket."""

BACKLOG = 2048
"""Connections that wait for a server: the kernel refuses those of a fuller queue."""
_MAX_ADDRESS = 107
"""Bytes of a path that the kernel takes (unix(7))."""
_CREDENTIALS = struct.Struct("3i")  # struct ucred: pid, uid, gid
_TIMEVAL = struct.Struct("@ll")


def address_in(home: str | os.PathLike[str]) -> str:
    """The address of the server with this home folder."""
    return f"{SCHEME}{os.fspath(home)}/{NAME}"


def socket_path(address: str) -> str:
    """The path of the socket at an address, "" = the address is of another kind."""
    return address.removeprefix(SCHEME) if address.startswith(SCHEME) else ""


def listen(path: str) -> socket.socket:
    """A socket that listens at the path, in place of what was there before. Raises OSError."""
    folder, name = os.path.split(path)
    fresh = os.path.join(folder, f".{name}.{os.getpid()}")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with open_folder(folder) as opened:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(fresh)
            listener.bind(address(fresh, opened))
        os.chmod(fresh, 0o600)
        listener.listen(BACKLOG)
        os.replace(fresh, path)
    except BaseException:
        listener.close()
        raise
    return listener


def connect(path: str, timeout_s: float | None) -> socket.socket:
    """A connection to the server that listens at the path.

    Raises OSError; PermissionError where another user listens, before anything is sent.
    """
    with open_folder(os.path.dirname(path)) as folder:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # Only a blocking connect() waits for room in a full queue (unix(7)), for as long as sending may take.
            _limit_sending(connection, timeout_s or 0.0)
            connection.connect(address(path, folder))
            _limit_sending(connection, 0.0)
            connection.settimeout(timeout_s)
            # Root may call the server of any user, in a folder of that user.
            require_trusted(connection, *([os.fstat(folder).st_uid] if os.geteuid() == 0 else []))
        except BaseException:
            connection.close()
            raise
        return connection


def require_trusted(connection: socket.socket, *others: int) -> None:
    """Raises PermissionError unless the other end is this process's user, one of the others, or root."""
    user = peer(connection)
    if user not in (0, os.geteuid(), *others):
        raise PermissionError(f"user {user} is at the other end of the server's socket, not user {os.geteuid()}")


def peer(connection: socket.socket) -> int:
    """The uid at the other end: who connected or, for one who connected, who listens."""
    size = _CREDENTIALS.size
    _, uid, _ = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return uid


@contextlib.contextmanager
def open_folder(path: str) -> Generator[int]:
    """The descriptor of a folder. Raises OSError."""
    folder = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield folder
    finally:
        os.close(folder)


def address(path: str, folder: int) -> str:
    """What binds or connects at a path, of whose folder the descriptor is open: homes may have longer paths."""
    return path if len(os.fsencode(path)) <= _MAX_ADDRESS else f"/proc/self/fd/{folder}/{os.path.basename(path)}"


def _limit_sending(connection: socket.socket, seconds: float) -> None:
    """Seconds for which sending, and connecting, may wait; 0 = for ever."""
    whole = int(seconds)
    time_value = _TIMEVAL.pack(whole, int((seconds - whole) * 1_000_000))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, time_value)
