"""Replaces ssh: `python -I -m drumbeat.node.launchers.remote.ssh_stand_in FOLDER [options] HOST COMMAND…`.

A command for a node of the job runs there, in the folder and with the variables of that node's own rank; one for this
node replaces this program. For any other host it becomes the real ssh.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Generator

from drumbeat.node.host.own_programs import become
from drumbeat.node.launchers.remote import frames, node_addresses
from drumbeat.node.launchers.remote.node_addresses import Address, NodeAddresses

_CONNECT_TIMEOUT_S = 120.0
_WITH_VALUE = frozenset("BbcDEeFIiJLlmOopQRSWw")
"""Options of ssh with a value, which may be a separate word (ssh(1))."""
_FAILED = 255
_PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main() -> int:
    """Returns the exit code of the command, 255 if it could not be run, as ssh does."""
    folder, *words = sys.argv[1:]
    host, command = parse(words)
    nodes = node_addresses.read(folder)
    if host not in nodes.own and host not in nodes.servers:
        return _become_ssh(folder, words, host, nodes)
    if not command:
        return _fail(f"ssh {host}: a command is required; a job's node has no terminal")
    if host in nodes.own:
        become(["/bin/bash", "-c", command], os.environ)
    try:
        with _connect(nodes.servers[host]) as line:
            with _passing_signals_on(line):
                frames.ask(line, nodes.key, frames.CommandRequest(command, nodes.places))
            return _follow(line)
    except OSError as error:
        return _fail(f"node {host} can't be reached: {error.strerror or error}")


def parse(words: list[str]) -> tuple[str, str]:
    """Returns host and command of an ssh command line without its options, which may follow the host, too."""
    host, rest = "", list(words)
    while rest and (rest[0].startswith("-") or not host):
        word = rest.pop(0)
        if word == "--":
            host = host or (rest.pop(0) if rest else "")
            break
        if not word.startswith("-"):
            host = word.rpartition("@")[2]
        elif rest and word[-1] in _WITH_VALUE and not set(word[1:-1]) & _WITH_VALUE:
            rest.pop(0)
    return host, " ".join(rest)


def _become_ssh(folder: str, words: list[str], host: str, nodes: NodeAddresses) -> int:
    """Becomes the real ssh, for a host that isn't one of the job's nodes."""
    path = os.environ.get("PATH", os.defpath).split(":")
    ssh = shutil.which("ssh", path=":".join(one for one in path if one != f"{folder}/bin"))
    if ssh is not None:
        become([ssh, *words], os.environ)
    names = ", ".join(sorted({*nodes.own, *nodes.servers}))
    return _fail(f"ssh: {host or 'no host'} isn't one of the job's nodes ({names}), and this machine has no ssh")


def _connect(address: Address) -> socket.socket:
    """Returns a connection to the command server, which may not listen yet. Raises OSError."""
    deadline = time.monotonic() + _CONNECT_TIMEOUT_S
    while True:
        try:
            line = socket.create_connection(address, timeout=10.0)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            return line


@contextlib.contextmanager
def _passing_signals_on(line: socket.socket) -> Generator[None]:
    """Passes signals on after the block; earlier ones wait, because no command could receive them yet."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)
    try:
        yield
        for number in _PASSED_ON:
            signal.signal(number, lambda number, _: _pass_on(line, number))
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _PASSED_ON)


def _follow(line: socket.socket) -> int:
    line.settimeout(None)
    files = {frames.OUT: 1, frames.ERR: 2}
    for kind, data in frames.frames(line):
        if kind == frames.EXIT:
            return int(data)
        _write(files[kind], data)
    return _fail("the other node closed the connection")


def _pass_on(line: socket.socket, number: int) -> None:
    """Passes a signal on; the command may already have ended, as mpirun's has when its signal comes."""
    with contextlib.suppress(OSError):
        line.sendall(frames.frame(frames.SIGNAL, str(int(number)).encode()))


def _write(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]


def _fail(message: str) -> int:
    print(f"drumbeat: {message}", file=sys.stderr)  # noqa: T201
    return _FAILED


if __name__ == "__main__":
    sys.exit(main())
