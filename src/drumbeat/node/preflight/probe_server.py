"""Answers the nodes that measure their link to this one: each waits for its turn, then for its answer."""

from __future__ import annotations

import contextlib
import hmac
import socket
import struct
import threading
import time
from collections.abc import Callable

from drumbeat.node.preflight.link_stream import close_now, get_line, put_line, receive, send

TURN, TAKE, GIVE = "turn", "take", "give"
"""The kinds of calls: a turn with clock readings; bytes from the peer; a count of the bytes sent to it."""
CLOCK = struct.Struct("!d")
PING, END = b"p", b"e"
_IDLE_S = 10.0
_HELLO_S = 2.0
MAX_BURST_S = 1.0


def proof(secret: str, kind: str, node: int) -> str:
    """Returns the proof in a node's call that it knows the secret of the attempt's nodes."""
    return hmac.digest(secret.encode(), f"preflight\0{kind}\0{node}".encode(), "sha256").hex()


class ProbeServer:
    """Answers on `address`, or on all addresses of the node if it isn't one of them. Raises OSError."""

    def __init__(self, address: str, secret: str) -> None:
        self._secret = secret
        self._socket = _listen(address)
        self.port: int = self._socket.getsockname()[1]
        self._turn = threading.Condition()
        self._open_to: set[int] = set()
        self._done: set[int] = set()
        self._is_open = False
        threading.Thread(target=self._accept, name="preflight", daemon=True).start()

    def serve(self, node: int, until: float) -> None:
        """Gives a node its turn, and returns when it has measured the link or at `until` (time.monotonic)."""
        with self._turn:
            self._open_to.add(node)
            self._turn.notify_all()
            self._turn.wait_for(lambda: node in self._done, max(0.0, until - time.monotonic()))

    def open(self) -> None:
        """Gives every node its turn, as this one has measured its own links."""
        with self._turn:
            self._is_open = True
            self._turn.notify_all()

    def close(self) -> None:
        """Stops listening."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                line, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(line,), name="preflight call", daemon=True).start()

    def _answer(self, line: socket.socket) -> None:
        answers: dict[str, Callable[[socket.socket, int, float], None]] = {
            TURN: self._give_turn,
            TAKE: _let_take,
            GIVE: _count,
        }
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            line.settimeout(_HELLO_S)
            asked = get_line(line)
            kind, node, burst_s = str(asked["kind"]), int(asked["from"]), float(asked["burst_s"])
            if hmac.compare_digest(proof(self._secret, kind, node), str(asked["proof"])):
                line.settimeout(_IDLE_S)
                line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                answers[kind](line, node, min(burst_s, MAX_BURST_S))
        close_now(line)

    def _give_turn(self, line: socket.socket, node: int, _burst_s: float) -> None:
        """Answers each byte with this node's clock, and holds the turn until the caller ends it or disconnects."""
        with self._turn:
            if not self._turn.wait_for(lambda: self._is_open or node in self._open_to, _IDLE_S):
                return
        try:
            put_line(line, {"turn": True})
            while line.recv(1) == PING:
                line.sendall(CLOCK.pack(time.time()))
        finally:
            with self._turn:
                self._done.add(node)
                self._turn.notify_all()


def _let_take(line: socket.socket, _node: int, burst_s: float) -> None:
    send(line, time.monotonic() + 4 * burst_s)


def _count(line: socket.socket, _node: int, burst_s: float) -> None:
    put_line(line, {"bits_per_s": receive(line, burst_s)})
    line.settimeout(burst_s)
    with contextlib.suppress(OSError):  # Reads the bytes in flight, because closing earlier would discard the answer.
        while line.recv(1 << 16):
            continue


def _listen(address: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.bind((address, 0))
    except OSError:
        try:
            listener.bind(("", 0))
        except OSError:
            listener.close()
            raise
    listener.listen(64)
    return listener
