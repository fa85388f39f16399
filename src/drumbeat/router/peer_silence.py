"""Tells from the kernel's view of a connection that the machine at its other end is gone or cut off.

TCP itself gives up after minutes where data is under way. TCP_USER_TIMEOUT is no way out: it also ends connections to a
living machine whose program doesn't read.
"""

from __future__ import annotations

import socket
import struct
from typing import Protocol

MAX_SILENCE_MS = 3000
"""With an answer to no packet for so long, a machine counts as gone: less than Azure's time-out of a request, 5 s."""
MIN_TRIES = 3
_FIELDS = struct.Struct("=8B13I")
"""The beginning of struct tcp_info (linux/tcp.h), up to tcpi_last_ack_recv."""
_RETRANSMITS, _PROBES, _LAST_ACK_MS = 2, 3, 20


class TcpSocket(Protocol):
    """A socket whose options are read."""

    def getsockopt(self, level: int, optname: int, buflen: int, /) -> bytes:
        """Raises OSError."""
        ...


def is_silent(connection: TcpSocket) -> bool:
    """Whether the other end's machine has answered none of several packets. The connection has keepalive probes."""
    try:
        raw = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _FIELDS.size)
    except OSError:
        return False
    if len(raw) < _FIELDS.size:
        return False
    fields = _FIELDS.unpack(raw)
    tries = max(fields[_RETRANSMITS], fields[_PROBES])
    return bool(tries >= MIN_TRIES and fields[_LAST_ACK_MS] > MAX_SILENCE_MS)
