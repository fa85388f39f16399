"""Measures the link to a peer: waits for its turn, then measures round trips, clocks, and a burst each way."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from drumbeat.model.preflight import UNKNOWN, LinkCheck
from drumbeat.node.preflight.link_stream import close_now, get_line, put_line, receive, send
from drumbeat.node.preflight.probe_server import CLOCK, END, GIVE, PING, TAKE, TURN, proof

CONNECT_S = 1.5
"""How long a peer's kernel may take to answer, which doesn't need the peer's agent."""
_PINGS, _MAX_PINGS_S = 10, 0.1
_ANSWER_S = 0.5


@dataclass(frozen=True)
class LinkProbe:
    """Calls peers on behalf of one node."""

    node: int
    secret: str
    burst_s: float

    def measure(self, peer: Mapping[str, Any], until: float) -> LinkCheck:
        """Returns the link to a member of the job; it has an `error` only if the peer can't be called at all.

        until: the deadline for this node's turn (time.monotonic).
        """
        number = int(peer["node"])
        try:
            turn = self._call(peer, TURN)
        except OSError as error:
            return LinkCheck(number, error=why(error))
        round_trip_us, clock_ms, in_bits, out_bits = UNKNOWN, 0, UNKNOWN, UNKNOWN
        try:
            turn.settimeout(max(0.01, until - time.monotonic()))
            get_line(turn)
            turn.settimeout(CONNECT_S)
            round_trip_us, clock_ms = _pings(turn)
            in_bits, out_bits = self._take(peer), self._give(peer)
            turn.sendall(END)
        # The time was up, or the peer's agent ended: neither says anything about the link.
        except (OSError, ValueError):
            pass
        finally:
            turn.close()
        return LinkCheck(number, out_bits, in_bits, round_trip_us, clock_ms)

    def _call(self, peer: Mapping[str, Any], kind: str) -> socket.socket:
        place = str(peer["address"]), int(peer["probe_port"])
        line = socket.create_connection(place, timeout=CONNECT_S)
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        asked = {"kind": kind, "from": self.node, "burst_s": self.burst_s, "proof": proof(self.secret, kind, self.node)}
        put_line(line, asked)
        return line

    def _take(self, peer: Mapping[str, Any]) -> int:
        line = self._call(peer, TAKE)
        try:
            return receive(line, self.burst_s)
        finally:
            close_now(line)

    def _give(self, peer: Mapping[str, Any]) -> int:
        line = self._call(peer, GIVE)
        try:
            send(line, time.monotonic() + 6 * self.burst_s)
            line.settimeout(_ANSWER_S)
            return int(get_line(line)["bits_per_s"])
        finally:
            close_now(line)


def _pings(turn: socket.socket) -> tuple[int, int]:
    """Returns the shortest round trip in µs, and how many ms the peer's clock was ahead in it."""
    best: tuple[float, float] | None = None
    end = time.monotonic() + _MAX_PINGS_S
    for number in range(_PINGS):
        if number and time.monotonic() > end:
            break
        at, asked = time.time(), time.perf_counter()
        turn.sendall(PING)
        peer_clock = _clock(turn)
        took = time.perf_counter() - asked
        if best is None or took < best[0]:
            best = took, peer_clock - (at + took / 2)
    took, ahead = best or (0.0, 0.0)
    return max(1, round(took * 1e6)), round(ahead * 1000)


def _clock(turn: socket.socket) -> float:
    data = b""
    while len(data) < CLOCK.size:
        part = turn.recv(CLOCK.size - len(data))
        if not part:
            raise ConnectionError("the peer closed the connection")
        data += part
    return CLOCK.unpack(data)[0]


def why(error: OSError) -> str:
    """Returns the system's reason why a peer can't be called."""
    if isinstance(error, TimeoutError):
        return "no answer"
    return os.strerror(error.errno).lower() if error.errno else str(error)
