"""Runs commands for programs on other nodes: `… drumbeat.agent.launchers.remote.command_server FOLDER ADDRESS PORT`.

The keeper holds it, and with it all that it starts. Whoever asks must know the round's key. `--once`: it lets one
command in, and ends with it; else it stays until SIGTERM, which it passes on to the commands that run.
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

from drumbeat.agent.launchers.remote import frames, place
from drumbeat.agent.launchers.remote.place import Known

_SPEAK_S = 10.0
_GRACE_S = 5.0
_LAST_S, _LAST_LOOKS = 1.0, 100
"""How long what a command that has ended said last is read."""
_PIPE = 1 << 16
"""What a pipe holds at most (pipe(7))."""
_FAILED = 255
"""Exit code of a command that can't be run, as ssh gives it."""


def main() -> int:
    """0; with `--once` the exit code of the one command."""
    folder, address, port, *how = sys.argv[1:]
    known = place.read(folder)
    try:
        listener = _listen(address, int(port))
    except OSError as error:
        print(f"drumbeat: nothing can be let in from other nodes: {error.strerror}", file=sys.stderr)  # noqa: T201
        return int(bool(how))
    with listener:
        return _let_one_in(listener, known) if how else _Door(listener, known).keep_open()


def _listen(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((address, port))
    listener.listen(64)
    return listener


def _let_one_in(listener: socket.socket, known: Known) -> int:
    while True:
        line, _ = listener.accept()
        if visit := _let_in(line, known):
            return visit.run()


def _let_in(line: socket.socket, known: Known) -> Visit | None:
    """None when whoever is at the line doesn't know the key; it has a few seconds."""
    line.settimeout(_SPEAK_S)
    with contextlib.suppress(OSError, ValueError, TypeError):
        request = frames.answer(line, known.key, secrets.token_hex(16))
        if request is not None:
            line.settimeout(None)
            return Visit(line, here(request, known))
    line.close()
    return None


def here(request: frames.Request, known: Known) -> str:
    """The command, with this node's own folders in the place of those of the node that asks."""
    command = request.command
    for what, theirs in request.places.items():
        if theirs and (ours := known.places.get(what)):
            command = re.sub(rf"{re.escape(theirs)}(?![\w.-])", lambda _, ours=ours: ours, command)
    return command


class _Door:
    """Open for any number of commands at once."""

    def __init__(self, listener: socket.socket, known: Known) -> None:
        self._listener, self._known = listener, known
        self._visits = set[Visit]()
        self._is_closing = False
        self._lock = threading.Lock()

    def keep_open(self) -> int:
        told = _hear_sigterm()
        while told not in select.select([self._listener, told], [], [])[0]:
            line, _ = self._listener.accept()
            threading.Thread(target=self._receive, args=(line,), daemon=True).start()
        with self._lock:
            self._is_closing = True
            visits = list(self._visits)
        for visit in visits:
            visit.pass_on(signal.SIGTERM)
        for visit in visits:
            visit.ended.wait()
        return 0

    def _receive(self, line: socket.socket) -> None:
        visit = _let_in(line, self._known)
        with self._lock:
            if visit is None or self._is_closing:
                line.close()
                return
            self._visits.add(visit)
        visit.run()
        with self._lock:
            self._visits.discard(visit)


def _hear_sigterm() -> int:
    """Becomes readable with the signal."""
    hear, tell = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(tell)
    signal.signal(signal.SIGTERM, _note)
    return hear


def _note(*_: object) -> None:
    """Python writes into the pipe by itself, but only for signals that have a handler."""


class Visit:
    """One command for somebody at the other end of a line."""

    def __init__(self, line: socket.socket, command: str) -> None:
        self._line, self._command = line, command
        self._sending, self._reading, self._signalling = threading.Lock(), threading.Lock(), threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._is_asked = False
        self.ended = threading.Event()

    def run(self) -> int:
        """Runs it, sends what it says, and ends it when whoever asked for it is gone; its exit code."""
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
        """Gives the command a signal; SIGTERM once only, for it may come by several ways, also before it has begun."""
        with self._signalling:
            is_told = number == signal.SIGTERM and self._is_asked
            self._is_asked = self._is_asked or number == signal.SIGTERM
            if self._child is not None and not is_told:
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
        for one in (*pumps, threading.Thread(target=self._heed, daemon=True)):
            one.start()
        code = child.wait()
        for kind, file in streams:  # All that it said itself is in the pipes now, or with a pump that stands still.
            self._pass(kind, file)
        for _ in range(_LAST_LOOKS):  # Looks, in which they read; what the command left behind may hold them open.
            if not any(one.is_alive() for one in pumps):
                break
            time.sleep(_LAST_S / _LAST_LOOKS)
        return code if code >= 0 else 128 - code

    def _pump(self, kind: bytes, file: IO[bytes]) -> None:
        while self._pass(kind, file):
            select.select([file], [], [])

    def _pass(self, kind: bytes, file: IO[bytes]) -> bool:
        """Sends what there is, a pipe's full; False = it has ended."""
        with self._reading:
            try:
                piece = os.read(file.fileno(), _PIPE)
            except BlockingIOError:
                return True
            if piece:
                self._send(kind, piece)
            return bool(piece)

    def _send(self, kind: bytes, data: bytes) -> None:
        with self._sending, contextlib.suppress(OSError):
            self._line.sendall(frames.frame(kind, data))

    def _heed(self) -> None:
        """Passes on the signals that come, and ends the command when the other side has hung up."""
        with contextlib.suppress(OSError, ValueError):
            for kind, data in frames.frames(self._line):
                if kind == frames.SIGNAL:
                    self.pass_on(signal.Signals(int(data)))
        self.pass_on(signal.SIGTERM)
        if not self.ended.wait(_GRACE_S):
            self.pass_on(signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
