"""Unix sockets of a node's sidecars, whose paths may be longer than an address allows (unix(7))."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Generator


@contextlib.contextmanager
def _short(path: str) -> Generator[str]:
    """A path through the open folder, because an address has at most 108 bytes."""
    folder, _, name = path.rpartition("/")
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{opened}/{name}"
    finally:
        os.close(opened)


def listen_at(path: str) -> socket.socket:
    """Returns a listener for one connection, which only this user can make. Raises OSError."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _short(path) as address:
            listener.bind(address)
        os.chmod(path, 0o600)
        listener.listen(1)
    except OSError:
        listener.close()
        raise
    return listener


def connect_to(path: str) -> socket.socket:
    """Returns a connection to the socket at this path. Raises OSError."""
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _short(path) as address:
            line.connect(address)
    except OSError:
        line.close()
        raise
    return line
