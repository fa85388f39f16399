"""Runs one command for a user: `python -I -m drumbeat.node.sidecars.session_process SOCKET 24x80|pipes COMMAND…`.

The supervisor starts it beside a rank. It connects to the agent at SOCKET and speaks `model.session_frames`. When the
connection closes, the command gets SIGHUP, and SIGKILL some seconds later. It has one thread, which waits in `poll`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import socket
import struct
import sys
import termios
import time
from collections.abc import Generator

from drumbeat.model import session_frames as frames
from drumbeat.model.session_frames import FrameReader, frame, parse_size
from drumbeat.node.sidecars.local_sockets import connect_to

PIPES = "pipes"
"""In place of a terminal's rows and columns: the command gets no terminal."""
_PIECE_BYTES = 1 << 16
_MAX_UNSENT = 1 << 18
"""The maximum of unsent bytes, at which reading pauses."""
_HANGUP_GRACE_S = 5.0
_DRAIN_S = 1.0
"""How long to wait for output of processes that the command has left behind."""
_NOT_RUN = 127
_HANGUP = select.POLLHUP | select.POLLERR | select.POLLNVAL


class Session:
    """The command of one user: running → its output is sent → over."""

    def __init__(self, line: socket.socket, size: tuple[int, int] | None) -> None:
        """size: rows and columns of the command's terminal; None = no terminal."""
        self._line, self._is_tty, self._size = line, size is not None, size or (0, 0)
        self._reader = FrameReader()
        self._to_user, self._to_command = bytearray(), bytearray()
        self._input = -1
        """The file of the command's input; -1 = it has ended."""
        self._outputs: dict[int, bytes] = {}
        """Kinds of frames by the file from which they are read."""
        self._is_input_over = self._has_said_exit = False
        self._has_user = True
        self._pid = self._handle = 0
        self._code: int | None = None
        self._kill_at = self._drained_at = float("inf")

    def run(self, argv: list[str]) -> None:
        """Runs the command, and returns when it has ended and the user has its exit code, or is gone."""
        signals = _signal_pipe()
        try:
            self._start(argv)
        except OSError as error:
            self._code = _NOT_RUN
            self._send(frames.ERR, f"drumbeat: {argv[0]} can't be run: {error.strerror}\n".encode())
        while not self._is_over():
            self._serve(dict(self._poll(signals)), signals)

    def _is_over(self) -> bool:
        if self._code is None or (self._outputs and time.monotonic() < self._drained_at):
            return False
        if not self._has_said_exit:
            self._has_said_exit = True
            self._send(frames.EXIT, str(self._code).encode())
        return not (self._to_user and self._has_user)

    # --- the command --------------------------------------------------------------------------------------------
    def _start(self, argv: list[str]) -> None:
        self._pid = self._start_in_terminal(argv) if self._is_tty else self._start_with_pipes(argv)
        self._handle = os.pidfd_open(self._pid)
        for file in (self._input, *self._outputs):
            os.set_blocking(file, False)

    def _start_in_terminal(self, argv: list[str]) -> int:
        master, slave = os.openpty()
        _set_size(master, *self._size)
        with _closing(slave):
            pid = os.fork()
            if pid == 0:
                _become(argv, (slave, slave, slave), is_tty=True)
        self._input, self._outputs = master, {master: frames.OUT}
        return pid

    def _start_with_pipes(self, argv: list[str]) -> int:
        (stdin, self._input), (out, stdout), (err, stderr) = (os.pipe2(os.O_CLOEXEC) for _ in range(3))
        self._outputs = {out: frames.OUT, err: frames.ERR}
        with _closing(stdin, stdout, stderr):
            pid = os.fork()
            if pid == 0:
                _become(argv, (stdin, stdout, stderr), is_tty=False)
        return pid

    def _signal(self, number: int) -> None:
        if self._pid and self._code is None:
            with contextlib.suppress(OSError):
                os.killpg(self._pid, number)

    # --- what comes -----------------------------------------------------------------------------------------------
    def _poll(self, signals: int) -> list[tuple[int, int]]:
        poll = select.poll()
        poll.register(signals, select.POLLIN)
        if self._has_user:
            wanted = select.POLLRDHUP
            wanted |= select.POLLIN if len(self._to_command) < _MAX_UNSENT else 0
            wanted |= select.POLLOUT if self._to_user else 0
            poll.register(self._line, wanted)
        if self._handle and self._code is None:
            poll.register(self._handle, select.POLLIN)
        for file in self._outputs if len(self._to_user) < _MAX_UNSENT else ():
            poll.register(file, select.POLLIN)
        if self._to_command and self._input >= 0:
            same = select.POLLIN if self._input in self._outputs and len(self._to_user) < _MAX_UNSENT else 0
            poll.register(self._input, select.POLLOUT | same)
        due = min(self._kill_at, self._drained_at if self._outputs else float("inf"))
        return poll.poll(None if due == float("inf") else max(0.0, due - time.monotonic()) * 1000 + 1)

    def _serve(self, events: dict[int, int], signals: int) -> None:
        if signals in events:
            self._pass_on(os.read(signals, 64))
        for file in [each for each in self._outputs if events.get(each, 0) & (select.POLLIN | _HANGUP)]:
            self._read_output(file)
        if self._handle and events.get(self._handle):
            self._reap()
        self._serve_line(events.get(self._line.fileno(), 0))
        if self._input in events:
            self._write_input()
        if self._code is None and time.monotonic() >= self._kill_at:
            self._signal(signal.SIGKILL)
            self._kill_at = float("inf")

    def _pass_on(self, numbers: bytes) -> None:
        for number in set(numbers):
            self._signal(number)

    def _reap(self) -> None:
        _, status = os.waitpid(self._pid, 0)
        code = os.waitstatus_to_exitcode(status)
        self._drained_at = time.monotonic() + _DRAIN_S
        self._code = code if code >= 0 else 128 - code

    def _read_output(self, file: int) -> None:
        try:
            piece = os.read(file, _PIECE_BYTES)
        except BlockingIOError:
            return
        except OSError:  # No process has the terminal open anymore.
            piece = b""
        if piece:
            self._send(self._outputs[file], piece)
            return
        del self._outputs[file]
        if file != self._input:
            os.close(file)

    # --- the user -------------------------------------------------------------------------------------------------
    def _send(self, kind: bytes, data: bytes) -> None:
        if self._has_user:
            self._to_user += frame(kind, data)

    def _serve_line(self, events: int) -> None:
        if events & select.POLLOUT:
            self._write_line()
        if events & select.POLLIN:
            self._read_line()
        elif events & (_HANGUP | select.POLLRDHUP):
            self._hang_up()

    def _write_line(self) -> None:
        try:
            del self._to_user[: self._line.send(self._to_user)]
        except BlockingIOError:
            return
        except OSError:
            self._hang_up()

    def _read_line(self) -> None:
        try:
            data = self._line.recv(_PIECE_BYTES)
            got = self._reader.feed(data)
        except BlockingIOError:
            return
        except (OSError, ValueError):
            data, got = b"", []
        for kind, body in got:
            self._take(kind, body)
        if not data:
            self._hang_up()

    def _take(self, kind: bytes, body: bytes) -> None:
        if kind == frames.IN and self._input >= 0:
            self._to_command += body or (b"\x04" if self._is_tty else b"")
            self._is_input_over = self._is_input_over or not body
            self._write_input()
        elif kind == frames.SIZE and self._is_tty and self._input >= 0:
            with contextlib.suppress(OSError, ValueError):
                _set_size(self._input, *parse_size(body))
        elif kind == frames.SIGNAL:
            with contextlib.suppress(ValueError):
                self._signal(signal.Signals(int(body)))

    def _write_input(self) -> None:
        if self._input < 0:
            return
        try:
            while self._to_command:
                del self._to_command[: os.write(self._input, self._to_command[:_PIECE_BYTES])]
        except BlockingIOError:
            return
        except OSError:  # The command no longer reads.
            self._to_command.clear()
            self._is_input_over = True
        if self._is_input_over and not self._is_tty:
            os.close(self._input)
            self._input = -1

    def _hang_up(self) -> None:
        if self._has_user:
            self._has_user = False
            self._line.close()
            self._to_user.clear()
            self._signal(signal.SIGHUP)
            if self._is_tty and self._input >= 0:  # This sends SIGHUP to its foreground processes.
                self._outputs.clear()
                os.close(self._input)
                self._input = -1
            self._kill_at = time.monotonic() + _HANGUP_GRACE_S


def _become(argv: list[str], files: tuple[int, int, int], *, is_tty: bool) -> None:
    """Turns this fork into the command, in a new session."""
    try:
        os.setsid()
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        for target, file in enumerate(files):
            os.dup2(file, target)
        if is_tty:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        os.execvp(argv[0], argv)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.write(2, f"drumbeat: {argv[0]} can't be run: {error.strerror}\n".encode())
    finally:
        os._exit(_NOT_RUN)


@contextlib.contextmanager
def _closing(*files: int) -> Generator[None]:
    try:
        yield
    finally:
        for file in files:
            os.close(file)


def _set_size(terminal: int, rows: int, columns: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def _signal_pipe() -> int:
    """Returns a file that receives the number of each SIGTERM and SIGHUP, which are passed on."""
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(writer)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, _ignore)
    return reader


def _ignore(*_: object) -> None:
    """Does nothing: Python itself writes to the pipe, but only for signals with a handler."""


def main() -> int:
    """Runs the command of a session; its exit code goes to the user."""
    place, kind, *argv = sys.argv[1:]
    line = connect_to(place)
    line.settimeout(0)
    rows, is_tty, columns = kind.partition("x")
    Session(line, (int(rows), int(columns)) if is_tty else None).run(argv)
    return 0


if __name__ == "__main__":
    sys.exit(main())
