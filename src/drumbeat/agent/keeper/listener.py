"""Where agent and keeper meet: the keeper's folder, its lock, and its socket with lines of JSON.

- keeper.lock: held by the keeper that lives; free = there is none
- keeper.sock: one agent at a time, the newest one
- marker: the name that all processes of this folder carry
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import struct
import time
from collections.abc import Callable
from typing import Any

from drumbeat.agent.ground import locks

_SOCKET = "keeper.sock"
_READ = 1 << 18

Message = dict[str, Any]


def hold_folder(folder: str, *, name: str = "keeper", tries: int = 1) -> int | None:
    """The open lock, None when another process has it. It is let go when this process ends, however it ends.

    tries: 10 ms apart; somebody who only asks (`is_held`) has it for an instant too.
    """
    for _ in range(tries):
        lock = locks.take(f"{folder}/{name}.lock")
        if lock is not None:
            return lock
        time.sleep(0.01)
    return None


def is_held(folder: str) -> bool:
    """Whether a keeper lives in this folder."""
    return locks.is_held(f"{folder}/keeper.lock")


def read_marker(folder: str) -> str:
    """The folder's marker, made when there is none yet. The caller holds the folder."""
    path = f"{folder}/marker"
    with contextlib.suppress(FileNotFoundError), open(path, encoding="utf-8") as file:
        if text := file.read():
            return text
    text = f"{folder}#{os.urandom(8).hex()}"
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return text


def connect(folder: str) -> socket.socket:
    """A connection to the folder's keeper. Raises OSError when none answers."""
    here = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        line.connect(_short(here))
    except OSError:
        line.close()
        raise
    finally:
        os.close(here)
    return line


def peer(line: socket.socket) -> int:
    """The process id of the keeper at the other end (SO_PEERCRED in unix(7))."""
    credentials = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[0])


def encode(message: Message) -> bytes:
    """One line."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def _short(folder: int) -> str:
    """The socket's address by way of the open folder: a path in an address has at most 108 characters (unix(7))."""
    return f"/proc/self/fd/{folder}/{_SOCKET}"


class Door:
    """The keeper's side: lets the newest agent in, hands on what it says, tells it the whole state."""

    def __init__(
        self,
        folder: str,
        selector: selectors.BaseSelector,
        obey: Callable[[Message], None],
        state: Callable[[], Message],
    ) -> None:
        self._selector, self._obey, self._state = selector, obey, state
        self._agent: socket.socket | None = None
        self._read = b""
        self._alone_since = time.monotonic()
        self._listener = _listen(folder)
        selector.register(self._listener, selectors.EVENT_READ, self._let_in)

    @property
    def is_alone(self) -> bool:
        """Whether no agent is there."""
        return self._agent is None

    def alone_s(self) -> float:
        """Seconds since an agent was there; 0 while one is."""
        return time.monotonic() - self._alone_since if self.is_alone else 0.0

    def serve(self, timeout_s: float | None) -> None:
        """Waits for something to happen, at most so long, and does what an agent says."""
        for key, _ in self._selector.select(timeout_s):
            if key.data is not None:
                key.data()

    def tell(self) -> None:
        """The whole state to the agent, if there is one. An agent that doesn't read is shown out: it will come back."""
        if self._agent is None:
            return
        line = encode(self._state())
        try:
            sent = self._agent.send(line)
        except OSError:
            sent = 0
        if sent < len(line):
            self._show_out()

    def _let_in(self) -> None:
        agent, _ = self._listener.accept()
        self._show_out()
        agent.settimeout(0)
        self._agent, self._read = agent, b""
        self._selector.register(agent, selectors.EVENT_READ, self._hear)
        self.tell()

    def _hear(self) -> None:
        agent = self._agent
        if agent is None:
            return
        try:
            piece = agent.recv(_READ)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        if not piece:
            self._show_out()
            return
        *lines, self._read = (self._read + piece).split(b"\n")
        for line in lines:
            self._obey(json.loads(line))

    def _show_out(self) -> None:
        if self._agent is not None:
            self._selector.unregister(self._agent)
            self._agent.close()
            self._agent = None
            self._alone_since = time.monotonic()


def _listen(folder: str) -> socket.socket:
    """The folder's socket; one that an earlier keeper left is taken away (the caller holds the folder)."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"{folder}/{_SOCKET}")
    here = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.settimeout(0)
    listener.bind(_short(here))
    os.close(here)
    listener.listen(4)
    return listener
