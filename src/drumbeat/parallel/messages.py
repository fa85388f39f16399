"""Messages between dealer, nodes and workers: JSON behind its length, never pickles; and the proof of the secret.

Any user of the machine can connect to the dealer's port. So each side proves first that it knows the secret of the
attempt, by an HMAC over random numbers of both; until then, only short messages are read.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import socket
import struct
from typing import Any, cast

Message = dict[str, Any]

SECRET = "DRUMBEAT_GANG_SECRET"  # noqa: S105 - the name of a variable
"""The variable with the secret that the ranks of an attempt share."""
MAX_BYTES = 256 << 20
MAX_PROOF_BYTES = 1024
PROOF_TIMEOUT_S = 10.0
_HEAD = struct.Struct(">I")


class MessageError(OSError):
    """The other side sent what isn't a message: the connection ends."""


def packed(message: Message) -> bytes:
    """Returns a message as bytes."""
    body = json.dumps(message).encode()
    return _HEAD.pack(len(body)) + body


class MessageParser:
    """Cuts the bytes of one connection into messages."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.max_bytes = max_bytes
        self._bytes = bytearray()

    def add(self, data: bytes) -> list[Message]:
        """Takes bytes; returns the messages that are whole now. Raises MessageError."""
        self._bytes += data
        messages: list[Message] = []
        while len(self._bytes) >= _HEAD.size:
            size = _HEAD.unpack_from(self._bytes)[0]
            if size > self.max_bytes:
                raise MessageError(f"a message of {size:,} bytes, above the limit of {self.max_bytes:,}")
            end = _HEAD.size + size
            if len(self._bytes) < end:
                break
            messages.append(_read(bytes(self._bytes[_HEAD.size : end])))
            del self._bytes[:end]
        return messages


def _read(body: bytes) -> Message:
    try:
        message: object = json.loads(body)
    except ValueError:
        raise MessageError("a message that isn't JSON") from None
    if not isinstance(message, dict):
        raise MessageError("a message that isn't an object")
    return cast("Message", message)


class BlockingChannel:
    """A connection whose one user waits for each message."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._incoming, self._messages = MessageParser(), list[Message]()

    def send(self, message: Message) -> None:
        """Sends a message. Raises OSError."""
        self.socket.sendall(packed(message))

    def receive(self) -> Message | None:
        """Waits for the next message; None = the other side has ended. Raises OSError."""
        while not self._messages:
            if not self.read():
                return None
        return self._messages.pop(0)

    def read(self) -> bool:
        """Reads once; returns False where the other side has ended. Raises OSError."""
        data = self.socket.recv(1 << 20)
        self._messages += self._incoming.add(data)
        return bool(data)

    def taken(self) -> list[Message]:
        """Returns the messages that are read and not received yet."""
        messages, self._messages = self._messages, []
        return messages


def nonce() -> str:
    """A random number that no earlier proof has."""
    return secrets.token_hex(16)


def proof(secret: str, role: str, *nonces: str) -> str:
    """The HMAC by which a role proves that it knows the secret."""
    return hmac.new(secret.encode(), " ".join((role, *nonces)).encode(), hashlib.sha256).hexdigest()


def is_proof(given: object, secret: str, role: str, *nonces: str) -> bool:
    """Whether a text is that proof."""
    return isinstance(given, str) and hmac.compare_digest(given.encode(), proof(secret, role, *nonces).encode())


def shared_secret() -> str:
    """The attempt's secret; outside of drumbeat, where one node is all, one of its own."""
    return os.environ.get(SECRET) or nonce()
