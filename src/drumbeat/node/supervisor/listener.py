"""The meeting point of agent and supervisor: the supervisor's folder, its lock, and its socket.

- keeper.lock: held by the living supervisor; free = there is none
- keeper.sock: a connection to one agent at a time, the newest one
- marker: the name in the environment of all processes of this folder
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import struct
import time
from collections.abc import Callable

from drumbeat.node.platform import locks

LOCK, _SOCKET = "keeper.lock", "keeper.sock"
_READ_BYTES = 1 << 18


def hold_folder(folder: str, *, name: str = "keeper", tries: int = 1) -> int | None:
    """Returns the open lock, None if another process has it. The lock is released when this process ends.

    tries: 10 ms apart; a mere check (`is_held`) holds the lock for an instant, too.
    """
    for _ in range(tries):
        lock = locks.take(f"{folder}/{name}.lock")
        if lock is not None:
            return lock
        time.sleep(0.01)
    return None


def is_held(folder: str) -> bool:
    """Whether a supervisor is alive in this folder."""
    return locks.is_held(f"{folder}/{LOCK}")


def read_marker(folder: str) -> str:
    """Returns the folder's marker, creating it if it is missing. The caller holds the folder."""
    path = f"{folder}/marker"
    with contextlib.suppress(FileNotFoundError), open(path, encoding="utf-8") as file:
        if text := file.read():
            return text
    text = f"{folder}#{os.urandom(8).hex()}"
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return text


def connect(folder: str) -> socket.socket:
    """Returns a connection to the folder's supervisor. Raises OSError if none answers."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(_short(opened))
    except OSError:
        connection.close()
        raise
    finally:
        os.close(opened)
    return connection


def peer(connection: socket.socket) -> int:
    """Returns the process id of the supervisor at the other end (SO_PEERCRED in unix(7))."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[0])


def end_supervisor(folder: str) -> None:
    """Kills the folder's supervisor, if one lives."""
    if is_held(folder):
        with contextlib.suppress(OSError), connect(folder) as connection:
            os.kill(peer(connection), signal.SIGKILL)


def _short(folder: int) -> str:
    """Returns the socket's address through the open folder: a path in an address has at most 108 bytes (unix(7))."""
    return f"/proc/self/fd/{folder}/{_SOCKET}"


class AgentListener:
    """The supervisor's side of the socket: accepts the newest agent, passes on its lines, sends it the whole state."""

    def __init__(
        self,
        folder: str,
        selector: selectors.BaseSelector,
        obey: Callable[[bytes], None],
        state: Callable[[], bytes],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._selector, self._obey, self._state = selector, obey, state
        self._agent: socket.socket | None = None
        self._unread = b""
        self._monotonic = monotonic
        self._alone_since = monotonic()
        self._listener = _listen(folder)
        selector.register(self._listener, selectors.EVENT_READ, self._accept)

    @property
    def is_alone(self) -> bool:
        """Whether no agent is connected."""
        return self._agent is None

    def alone_s(self) -> float:
        """Seconds since an agent was connected; 0 while one is."""
        return self._monotonic() - self._alone_since if self.is_alone else 0.0

    def serve(self, timeout_s: float | None) -> None:
        """Waits for an event, at most for this time, and carries out an agent's requests."""
        for key, _ in self._selector.select(timeout_s):
            if key.data is not None:
                key.data()

    def dismiss(self) -> None:
        """Closes the connection to the agent; `alone_s` starts to count."""
        self._disconnect()
        self._alone_since = self._monotonic()

    def send_state(self) -> None:
        """Sends the whole state to the agent, if there is one; disconnects an agent that doesn't read."""
        if self._agent is None:
            return
        line = self._state()
        try:
            sent = self._agent.send(line)
        except OSError:
            sent = 0
        if sent < len(line):
            self._disconnect()

    def _accept(self) -> None:
        agent, _ = self._listener.accept()
        self._disconnect()
        agent.settimeout(0)
        self._agent, self._unread = agent, b""
        self._selector.register(agent, selectors.EVENT_READ, self._receive)
        self.send_state()

    def _receive(self) -> None:
        agent = self._agent
        if agent is None:
            return
        try:
            piece = agent.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        if not piece:
            self._disconnect()
            return
        *lines, self._unread = (self._unread + piece).split(b"\n")
        for line in lines:
            self._obey(line)

    def _disconnect(self) -> None:
        if self._agent is not None:
            self._selector.unregister(self._agent)
            self._agent.close()
            self._agent = None
            self._alone_since = self._monotonic()


def _listen(folder: str) -> socket.socket:
    """Returns the folder's socket, after removing that of an earlier supervisor (the caller holds the folder)."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"{folder}/{_SOCKET}")
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.settimeout(0)
    listener.bind(_short(opened))
    os.close(opened)
    listener.listen(4)
    return listener
