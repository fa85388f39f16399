"""How mpirun's child hands over to the rank: a socket per rank, by which variables and open files go.

Child to rank: eight bytes of length with the files, then JSON: `env`, `cores`, and `files`, the files' own numbers.
Rank to child: one byte with a handle on the rank's process, by which the child sees it end, and with the liveness pipe,
by which the supervisor sees the child end.
"""

from __future__ import annotations

import json
import os
import socket
import struct
from typing import Any

ATTACHED = b"+"
"""What a child writes to its liveness pipe if the pipe's end is to mean that MPI has ended the child."""
_LENGTH = struct.Struct("!Q")
_MAX_FILES = 8

Given = dict[str, Any]


def send(line: socket.socket, given: Given) -> None:
    """Sends what mpirun gave the child."""
    body = json.dumps(given).encode(errors="surrogateescape")
    socket.send_fds(line, [_LENGTH.pack(len(body))], given["files"])
    line.sendall(body)


def receive(line: socket.socket) -> tuple[Given, list[int]]:
    """Receives that in the rank, with the numbers that its files have here. Raises OSError."""
    head, files, _, _ = socket.recv_fds(line, _LENGTH.size, _MAX_FILES)
    if len(head) < _LENGTH.size:
        raise OSError(104, "mpirun's child was gone before it had handed over")
    return json.loads(_read(line, _LENGTH.unpack(head)[0])), files


def send_handle(line: socket.socket, liveness: int) -> None:
    """Sends a handle on this process, valid after exec too, and the liveness pipe, which is closed here."""
    handle = os.pidfd_open(os.getpid())
    socket.send_fds(line, [b"+"], [handle, liveness])
    os.close(handle)
    os.close(liveness)


def receive_handle(line: socket.socket) -> tuple[int, int]:
    """Returns the handle on the rank and the liveness pipe. Raises OSError."""
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
