"""`python -I -m drumbeat.agent.mpi.door FOLDER ADDRESS PORT`: starts mpirun's daemon on this node when node 0 asks.

The keeper holds it, and with it all that it starts. It lets one command in, which must be signed with the round's key.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import IO

from drumbeat.agent.mpi import frames
from drumbeat.agent.mpi.place import known

_SPEAK_S = 10.0
_GRACE_S = 5.0


def main() -> int:
    """The exit code of the one command."""
    folder, address, port = sys.argv[1:]
    key = known(folder)["key"]
    with _listen(address, int(port)) as door:
        line, command = _let_in(door, key)
    with line:
        return _run(line, command)


def _listen(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    door = socket.socket(family, socket.SOCK_STREAM)
    door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    door.bind((address, port))
    door.listen(16)
    return door


def _let_in(door: socket.socket, key: str) -> tuple[socket.socket, str]:
    """The first one who knows the key, and what it asks for. Others have a few seconds each."""
    while True:
        line, _ = door.accept()
        line.settimeout(_SPEAK_S)
        with contextlib.suppress(OSError, ValueError):
            command = frames.answer(line, key, secrets.token_hex(16))
            if command is not None:
                line.settimeout(None)
                return line, command
        line.close()


def _run(line: socket.socket, command: str) -> int:
    """Runs it, sends what it says, and ends it when whoever asked for it is gone."""
    child = subprocess.Popen(
        ["/bin/sh", "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/",
        process_group=0,
    )  # fmt: skip
    lock = threading.Lock()
    streams = ((frames.OUT, child.stdout), (frames.ERR, child.stderr))
    pumps = [threading.Thread(target=_pump, args=(kind, file, line, lock), daemon=True) for kind, file in streams]
    for one in (*pumps, threading.Thread(target=_end_with, args=(line, child), daemon=True)):
        one.start()
    code = child.wait()
    for one in pumps:
        one.join(1.0)  # What the command left behind may hold them open.
    _send(line, lock, frames.EXIT, str(code if code >= 0 else 128 - code).encode())
    return code if code >= 0 else 128 - code


def _pump(kind: bytes, file: IO[bytes] | None, line: socket.socket, lock: threading.Lock) -> None:
    while file is not None and (piece := os.read(file.fileno(), 1 << 16)):
        _send(line, lock, kind, piece)


def _send(line: socket.socket, lock: threading.Lock, kind: bytes, data: bytes) -> None:
    with lock, contextlib.suppress(OSError):
        line.sendall(frames.frame(kind, data))


def _end_with(line: socket.socket, child: subprocess.Popen[bytes]) -> None:
    """Waits until the other side has hung up: it never says anything more."""
    with contextlib.suppress(OSError):
        select.select([line], [], [])
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, number)
        time.sleep(_GRACE_S)


if __name__ == "__main__":
    sys.exit(main())
