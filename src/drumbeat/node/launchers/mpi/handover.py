"""The handover from mpirun's child to the rank: a socket per rank, which carries variables and open files.

Child to rank: eight bytes of length with the files, then JSON: `env`, `cores`, and `files`, the files' own numbers.
Rank to child: one byte with a handle on the rank's process, by which the child sees its end, and with the liveness
pipe, by which the supervisor sees the child's end.
"""

from __future__ import annotations

import json
import os
import socket
import struct
from typing import Any

ATTACHED = b"+"
"""A child writes this to its liveness pipe if the pipe's end should mean that MPI has ended the child."""
_LENGTH = struct.Struct("!Q")
_MAX_FILES = 8

Given = dict[str, Any]


def send(line: socket.socket, given: Given) -> None:
    """Sends the variables and files that mpirun gave the child."""
    body = json.dumps(given).encode(errors="surrogateescape")
    socket.send_fds(line, [_LENGTH.pack(len(body))], given["files"])
    line.sendall(body)


def receive(line: socket.socket) -> tuple[Given, list[int]]:
    """Receives them in the rank, with the files' numbers in this process. Raises OSError."""
    head, files, _, _ = socket.recv_fds(line, _LENGTH.size, _MAX_FILES)
    if len(head) < _LENGTH.size:
        raise OSError(104, "mpirun's child ended before the handover")
    return json.loads(_read(line, _LENGTH.unpack(head)[0])), files


def send_handle(line: socket.socket, liveness: int) -> None:
    """Sends a handle on this process, which stays valid after exec, and the liveness pipe, which is closed here."""
    handle = os.pidfd_open(os.getpid())
    socket.send_fds(line, [b"+"], [handle, liveness])
    os.close(handle)
    os.close(liveness)


def receive_handle(line: socket.socket) -> tuple[int, int]:
    """Returns the handle on the rank and the liveness pipe. Raises OSError."""
    _, files, _, _ = socket.recv_fds(line, 1, 2)
    if len(files) < 2:
        raise OSError(104, "the rank ended before it began")
    return files[0], files[1]


def _read(line: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        piece = line.recv(min(1 << 18, length - len(data)))
        if not piece:
            raise OSError(104, "mpirun's child closed the connection")
        data += piece
    return data
