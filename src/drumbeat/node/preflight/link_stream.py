"""The two ends of a measurement over TCP: the sender, and the receiver, which returns the rate.

The receiver measures, because a sender's buffers and the bucket of a traffic shaper accept the first bytes at any
speed.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import struct
import time
from typing import Any, cast

from drumbeat.model.preflight import UNKNOWN

PIECE = 1 << 18
_WARM_UP = 1 / 3
"""The share of a burst that isn't counted: TCP finds its window, and shapers empty their buckets."""
_CLOSE_NOW = struct.pack("ii", 1, 0)
_PAUSE_S = 0.02
_MAX_LINE = 4096


def receive(line: socket.socket, burst_s: float) -> int:
    """Receives for `burst_s`, and returns the bits per second; UNKNOWN if nothing came."""
    buffer = bytearray(PIECE)
    points: list[tuple[float, int]] = []
    total, end = 0, time.monotonic() + 4 * burst_s
    while (now := time.monotonic()) < end:
        if not select.select([line], [], [], max(0.0, end - now))[0]:
            break
        size = line.recv_into(buffer)
        if not size:
            break
        total += size
        now = time.monotonic()
        if not points:
            end = now + burst_s
        points.append((now, total))
    return rate(points, burst_s)


def rate(points: list[tuple[float, int]], burst_s: float) -> int:
    """Returns the bits per second after the warm-up. points: times and the bytes received until then."""
    if len(points) < 2:
        return UNKNOWN
    start = points[0][0] + burst_s * _WARM_UP
    first = next((point for point in points[:-1] if point[0] >= start), points[0])
    last = points[-1]
    seconds = last[0] - first[0]
    return round((last[1] - first[1]) * 8 / seconds) if seconds > 0 else UNKNOWN


def send(line: socket.socket, end: float) -> None:
    """Sends until the receiver answers or leaves, at most until `end` (time.monotonic)."""
    data = memoryview(bytes(PIECE))
    line.settimeout(0)
    with contextlib.suppress(ConnectionError):
        while (now := time.monotonic()) < end:
            readable, writable, _ = select.select([line], [line], [], min(_PAUSE_S, end - now))
            if readable:
                break
            if writable:
                with contextlib.suppress(BlockingIOError):
                    line.send(data)
    line.settimeout(None)


def close_now(line: socket.socket) -> None:
    """Closes a connection without sending the rest of its buffers."""
    with contextlib.suppress(OSError):
        line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _CLOSE_NOW)
    line.close()


def put_line(line: socket.socket, value: dict[str, Any]) -> None:
    """Sends an object as a line of JSON."""
    line.sendall(json.dumps(value).encode() + b"\n")


def get_line(line: socket.socket) -> dict[str, Any]:
    """Returns the object in the next line, read byte by byte: the following bytes belong to the measurement.

    Raises OSError, ValueError.
    """
    text = bytearray()
    while not text.endswith(b"\n"):
        byte = line.recv(1)
        if not byte or len(text) > _MAX_LINE:
            raise ConnectionError("the peer closed the connection")
        text += byte
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ConnectionError("the peer's answer isn't an object")
    return cast("dict[str, Any]", value)
