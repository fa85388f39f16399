"""Runs commands for programs on other nodes: `… drumbeat.node.launchers.remote.command_server FOLDER ADDRESS PORT`.

The supervisor holds it with all its children. A client must know the round's key. With `--once` it runs one command and
ends with it; otherwise it runs until SIGTERM, which it passes on to the commands.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import IO

from drumbeat.node.launchers.remote import frames, node_addresses
from drumbeat.node.launchers.remote.node_addresses import NodeAddresses

_REQUEST_TIMEOUT_S = 10.0
_GRACE_S = 5.0
_DRAIN_S, _DRAIN_CHECKS = 1.0, 100
"""How long the remaining output of an ended command is read."""
_PIPE_BYTES = 1 << 16
"""The capacity of a pipe (pipe(7))."""
_FAILED = 255
"""The exit code of a command that can't be run, as with ssh."""


def main() -> int:
    """Returns 0; with `--once` the exit code of the one command."""
    folder, address, port, *how = sys.argv[1:]
    nodes = node_addresses.read(folder)
    try:
        listener = _listen(address, int(port))
    except OSError as error:
        print(f"drumbeat: commands of other nodes can't be received: {error.strerror}", file=sys.stderr)  # noqa: T201
        return int(bool(how))
    with listener:
        return _serve_one(listener, nodes) if how else _Server(listener, nodes).serve()


def _listen(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((address, port))
    listener.listen(64)
    return listener


def _serve_one(listener: socket.socket, nodes: NodeAddresses) -> int:
    while True:
        line, _ = listener.accept()
        if command := _admit(line, nodes):
            return command.run()


def _admit(line: socket.socket, nodes: NodeAddresses) -> RemoteCommand | None:
    """Returns the command of a client, None if it doesn't prove the key within a few seconds."""
    line.settimeout(_REQUEST_TIMEOUT_S)
    with contextlib.suppress(OSError, ValueError, TypeError):
        request = frames.answer(line, nodes.key, secrets.token_hex(16))
        if request is not None:
            line.settimeout(None)
            return RemoteCommand(line, localized(request, nodes))
    line.close()
    return None


def localized(request: frames.CommandRequest, nodes: NodeAddresses) -> str:
    """Returns the command with this node's folders in place of the asking node's."""
    command = request.command
    for what, theirs in request.places.items():
        if theirs and (ours := nodes.places.get(what)):
            command = re.sub(rf"{re.escape(theirs)}(?![\w.-])", lambda _, ours=ours: ours, command)
    return command


class _Server:
    """Runs any number of commands at once."""

    def __init__(self, listener: socket.socket, nodes: NodeAddresses) -> None:
        self._listener, self._nodes = listener, nodes
        self._commands = set[RemoteCommand]()
        self._is_closing = False
        self._lock = threading.Lock()

    def serve(self) -> int:
        sigterm = _sigterm_pipe()
        while sigterm not in select.select([self._listener, sigterm], [], [])[0]:
            line, _ = self._listener.accept()
            threading.Thread(target=self._receive, args=(line,), daemon=True).start()
        with self._lock:
            self._is_closing = True
            commands = list(self._commands)
        for command in commands:
            command.pass_on(signal.SIGTERM)
        for command in commands:
            command.ended.wait()
        return 0

    def _receive(self, line: socket.socket) -> None:
        command = _admit(line, self._nodes)
        with self._lock:
            if command is None or self._is_closing:
                line.close()
                return
            self._commands.add(command)
        command.run()
        with self._lock:
            self._commands.discard(command)


def _sigterm_pipe() -> int:
    """Returns a file that becomes readable with SIGTERM."""
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(writer)
    signal.signal(signal.SIGTERM, _ignore)
    return reader


def _ignore(*_: object) -> None:
    """Does nothing: Python itself writes to the pipe, but only for signals with a handler."""


class RemoteCommand:
    """A command that this node runs for a shell on another node."""

    def __init__(self, line: socket.socket, command: str) -> None:
        self._line, self._command = line, command
        self._sending, self._reading, self._signalling = threading.Lock(), threading.Lock(), threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._is_asked = False
        self.ended = threading.Event()

    def run(self) -> int:
        """Runs the command, sends its output, ends it if the shell is gone, and returns its exit code."""
        with self._line:
            try:
                code = self._run()
            except OSError as error:
                self._send(frames.ERR, f"drumbeat: the command can't be run: {error.strerror}\n".encode())
                code = _FAILED
            self._send(frames.EXIT, str(code).encode())
        self.ended.set()
        return code

    def pass_on(self, number: int) -> None:
        """Sends the command a signal, SIGTERM only once: it may arrive in several ways, even before the start."""
        with self._signalling:
            is_repeat = number == signal.SIGTERM and self._is_asked
            self._is_asked = self._is_asked or number == signal.SIGTERM
            if self._child is not None and not is_repeat:
                self._signal(self._child, number)

    @staticmethod
    def _signal(child: subprocess.Popen[bytes], number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, number)

    def _begin(self) -> subprocess.Popen[bytes]:
        with self._signalling:
            self._child = child = subprocess.Popen(
                ["/bin/bash", "-c", self._command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, process_group=0,
            )  # fmt: skip
            if self._is_asked:
                self._signal(child, signal.SIGTERM)
        for file in filter(None, (child.stdout, child.stderr)):
            os.set_blocking(file.fileno(), False)
        return child

    def _run(self) -> int:
        child = self._begin()
        streams = [(kind, file) for kind, file in ((frames.OUT, child.stdout), (frames.ERR, child.stderr)) if file]
        pumps = [threading.Thread(target=self._pump, args=stream, daemon=True) for stream in streams]
        for one in (*pumps, threading.Thread(target=self._follow_shell, daemon=True)):
            one.start()
        code = child.wait()
        for kind, file in streams:  # The command's output is now in the pipes, or with a suspended pump.
            self._pass(kind, file)
        for _ in range(_DRAIN_CHECKS):  # Processes that the command left behind may hold the pipes open.
            if not any(one.is_alive() for one in pumps):
                break
            time.sleep(_DRAIN_S / _DRAIN_CHECKS)
        return code if code >= 0 else 128 - code

    def _pump(self, kind: bytes, file: IO[bytes]) -> None:
        while self._pass(kind, file):
            select.select([file], [], [])

    def _pass(self, kind: bytes, file: IO[bytes]) -> bool:
        """Sends the available output, at most a full pipe; returns False at its end."""
        with self._reading:
            try:
                piece = os.read(file.fileno(), _PIPE_BYTES)
            except BlockingIOError:
                return True
            if piece:
                self._send(kind, piece)
            return bool(piece)

    def _send(self, kind: bytes, data: bytes) -> None:
        with self._sending, contextlib.suppress(OSError):
            self._line.sendall(frames.frame(kind, data))

    def _follow_shell(self) -> None:
        """Passes on signals, and ends the command when the shell has closed the connection."""
        with contextlib.suppress(OSError, ValueError):
            for kind, data in frames.frames(self._line):
                if kind == frames.SIGNAL:
                    self.pass_on(signal.Signals(int(data)))
        self.pass_on(signal.SIGTERM)
        if not self.ended.wait(_GRACE_S):
            self.pass_on(signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
