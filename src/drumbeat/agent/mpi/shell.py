"""`python -I -m drumbeat.agent.mpi.shell FOLDER [options] HOST COMMAND…`: what mpirun calls in the place of ssh."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time

from drumbeat.agent.mpi import frames
from drumbeat.agent.mpi.place import known

_MEET_S = 120.0
_WITH_VALUE = frozenset(("-l", "-p", "-i", "-o", "-F", "-b", "-c", "-e", "-m"))
"""Options of ssh that are followed by a word of their own."""
_FAILED = 255


def main() -> int:
    """The exit code of the command, 255 when it couldn't be run, as ssh gives it."""
    folder, *words = sys.argv[1:]
    host, command = parse(words)
    told = known(folder)
    if host == told["own"]:
        return subprocess.run(["/bin/sh", "-c", command], check=False).returncode
    if host not in told["doors"]:
        return _fail(f"{host} isn't one of the job's nodes: {', '.join(told['doors'])}")
    try:
        with _meet(host, told["doors"][host]) as line:
            frames.ask(line, told["key"], command)
            return _follow(line)
    except OSError as error:
        return _fail(f"node {host} can't be reached: {error.strerror or error}")


def parse(words: list[str]) -> tuple[str, str]:
    """Host and command of a line for ssh, whose options are passed over."""
    rest = list(words)
    while rest and rest[0].startswith("-"):
        rest = rest[2:] if rest[0] in _WITH_VALUE else rest[1:]
    return (rest[0].rpartition("@")[2] if rest else ""), " ".join(rest[1:])


def _meet(host: str, port: int) -> socket.socket:
    """A line to the door, which may be about to open. Raises OSError."""
    deadline = time.monotonic() + _MEET_S
    while True:
        try:
            line = socket.create_connection((host, port), timeout=10.0)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            return line


def _follow(line: socket.socket) -> int:
    line.settimeout(None)
    files = {frames.OUT: 1, frames.ERR: 2}
    for kind, data in frames.frames(line):
        if kind == frames.EXIT:
            return int(data)
        os.write(files[kind], data)
    return _fail("the other node broke off")


def _fail(sentence: str) -> int:
    print(f"drumbeat: {sentence}", file=sys.stderr)  # noqa: T201
    return _FAILED


if __name__ == "__main__":
    sys.exit(main())
