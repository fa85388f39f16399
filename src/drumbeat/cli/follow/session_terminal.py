"""Runs a session on this terminal: prints its output, and sends it the input, the terminal's size, and Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import termios
import threading
import tty
from collections.abc import Generator, Iterator
from types import FrameType
from typing import TYPE_CHECKING

from drumbeat.model import session_frames as frames
from drumbeat.model.errors import DrumbeatError, UnreachableError
from drumbeat.model.session_frames import FrameReader, frame, size_frame

if TYPE_CHECKING:
    from drumbeat.client import Client
    from drumbeat.model.api.sessions import SessionView


_PIECE_BYTES = 1 << 15


class SessionTerminal:
    """Connects this process's standard files with one session."""

    def __init__(self, *, is_tty: bool, has_input: bool) -> None:
        self._is_tty, self._has_input = is_tty, has_input
        self._to_session = OutgoingFrames()
        self._interrupts = 0

    def run(self, client: Client, job: str, session: SessionView) -> int:
        """Returns the exit code of the session's command. Raises UnreachableError when the session breaks off."""
        sending = threading.Thread(target=self._send, args=(client, job, session.id), daemon=True)
        with client.session_output(job, session.id) as pieces, self._prepared():
            sending.start()
            if self._has_input:
                threading.Thread(target=self._read_input, daemon=True).start()
            code = self._print(pieces)
        if code is None:
            what = f"the session in job {job} broke off before its command ended"
            raise UnreachableError(what, fix="See with `drumbeat show` whether the job's ranks still run.")
        return code

    def _print(self, pieces: Iterator[bytes]) -> int | None:
        """Prints the output, and returns the exit code; None = the stream ended before."""
        reader = FrameReader()
        for piece in pieces:
            for kind, body in reader.feed(piece):
                if kind == frames.EXIT:
                    return int(body)
                _write(2 if kind == frames.ERR else 1, body)
        return None

    # --- to the session ---------------------------------------------------------------------------------------------
    def _send(self, client: Client, job: str, session: str) -> None:
        with contextlib.suppress(DrumbeatError):  # The session has ended, and its output says how.
            client.send_session_input(job, session, iter(self._to_session))

    def _read_input(self) -> None:
        with contextlib.suppress(OSError):
            while piece := os.read(0, _PIECE_BYTES):
                self._to_session.add_input(frame(frames.IN, piece))
        self._to_session.add_input(frame(frames.IN))

    # --- this terminal ------------------------------------------------------------------------------------------------
    @contextlib.contextmanager
    def _prepared(self) -> Generator[None]:
        """Sends each key to the session as it is typed; restores the terminal afterwards."""
        kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGWINCH)}
        before = termios.tcgetattr(0) if self._is_tty else None
        try:
            signal.signal(signal.SIGINT, self._interrupt)
            if before is not None:
                signal.signal(signal.SIGWINCH, self._resize)
                tty.setraw(0)
            yield
        finally:
            if before is not None:
                termios.tcsetattr(0, termios.TCSADRAIN, before)
            for number, handler in kept.items():
                signal.signal(number, handler)

    def _resize(self, _number: int, _frame: FrameType | None) -> None:
        self._to_session.add_signal(size_frame(*own_size()))

    def _interrupt(self, number: int, _frame: FrameType | None) -> None:
        """Passes the first Ctrl-C on; the second one ends this program."""
        self._interrupts += 1
        if self._interrupts > 1:
            raise KeyboardInterrupt
        self._to_session.add_signal(frame(frames.SIGNAL, str(number).encode()))


def own_size() -> tuple[int, int]:
    """Rows and columns of this terminal."""
    try:
        size = os.get_terminal_size(1)
    except OSError:
        return 24, 80
    return size.lines, size.columns


def _write(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]


MAX_INPUT = 64
"""How many frames of input wait; then reading waits."""


class OutgoingFrames:
    """Queues frames for one sender. Signals and sizes pass the input that waits, and are never dropped.

    A signal handler may interrupt another one in the middle of `add_signal`: of Python's queues, only SimpleQueue
    allows that.
    """

    def __init__(self) -> None:
        self._signals: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._input: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._queued: queue.SimpleQueue[None] = queue.SimpleQueue()
        """An item for each frame of the other two."""
        self._room = threading.Semaphore(MAX_INPUT)

    def __iter__(self) -> Iterator[bytes]:
        """Yields the next frame as soon as there is one, without end."""
        while True:
            self._queued.get()
            yield self._next()

    def _next(self) -> bytes:
        try:
            return self._signals.get_nowait()
        except queue.Empty:
            frame = self._input.get()
            self._room.release()
            return frame

    def add_input(self, frame: bytes) -> None:
        """Adds a frame of input, as soon as there is room."""
        self._room.acquire()
        self._input.put(frame)
        self._queued.put(None)

    def add_signal(self, frame: bytes) -> None:
        """Adds a frame at once: signal handlers must not wait."""
        self._signals.put(frame)
        self._queued.put(None)
