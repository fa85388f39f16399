"""How mpirun's child hands over to the rank: a socket per rank, by which variables and open files go.

Child to rank: eight bytes of length with the files, then JSON: `env`, `cores`, and `files`, the files' own numbers.
Rank to child: one byte with a handle on the rank's process, by which the child sees it end, and with the rope, by which
the keeper sees the child end.
"""

from __future__ import annotations

import json
import os
import socket
import struct
from typing import Any

ROPE = "DRUMBEAT_ROPE"
"""The variable that tells a rank the number of its rope, a pipe whose other end the keeper has."""
HELD = b"+"
"""What a child writes into the rope whose end means that MPI has ended it."""
_LENGTH = struct.Struct("!Q")
_MOST_FILES = 8

Given = dict[str, Any]


def send(line: socket.socket, given: Given) -> None:
    """What the child was given."""
    body = json.dumps(given).encode(errors="surrogateescape")
    socket.send_fds(line, [_LENGTH.pack(len(body))], given["files"])
    line.sendall(body)


def receive(line: socket.socket) -> tuple[Given, list[int]]:
    """The same in the rank, and its files as they are numbered here. Raises OSError."""
    head, files, _, _ = socket.recv_fds(line, _LENGTH.size, _MOST_FILES)
    if len(head) < _LENGTH.size:
        raise OSError(104, "mpirun's child was gone before it had handed over")
    return json.loads(_read(line, _LENGTH.unpack(head)[0])), files


def send_handle(line: socket.socket, rope: int) -> None:
    """A handle on this process, which stays the same when it runs another program; the rope, which it has no more."""
    handle = os.pidfd_open(os.getpid())
    socket.send_fds(line, [b"+"], [handle, rope])
    os.close(handle)
    os.close(rope)


def receive_handle(line: socket.socket) -> tuple[int, int]:
    """The handle on the rank, and the rope. Raises OSError."""
    _, files, _, _ = socket.recv_fds(line, 1, 2)
    if len(files) < 2:
        raise OSError(104, "the rank was gone before it had begun")
    return files[0], files[1]


def _read(line: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        piece = line.recv(min(1 << 18, length - len(data)))
        if not piece:
            raise OSError(104, "mpirun's child broke off")
        data += piece
    return data
