"""The protocol between a command server and a shell over TCP.

The server begins with a nonce in hex and a newline. The shell answers with one line: the HMAC of nonce and request with
the round's key, a space, the request as JSON. Then both send frames: kind, length, bytes. The server sends `o` and `e`
with the command's stdout and stderr, and `x` with its exit code; the shell sends `s` with the number of a signal for
the command. When the shell closes the connection, the command is ended.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

OUT, ERR, EXIT, SIGNAL = b"o", b"e", b"x", b"s"
_HEAD = struct.Struct("!cI")
_MAX_LINE_BYTES = 1 << 20


@dataclass(frozen=True)
class CommandRequest:
    """A command for another node."""

    command: str
    """Shell text."""
    places: dict[str, str] = field(default_factory=dict[str, str])
    """Folders of the asking node, by purpose; the other node replaces them in the command with its own."""


def ask(line: socket.socket, key: str, request: CommandRequest) -> None:
    """Reads the nonce and sends the shell's line. Raises OSError."""
    nonce = read_line(line)
    body = json.dumps([request.command, request.places])
    line.sendall(f"{_sign(key, nonce, body)} {body}\n".encode())


def answer(line: socket.socket, key: str, nonce: str) -> CommandRequest | None:
    """Sends the nonce and returns the request, None if it isn't signed with the key. Raises OSError."""
    line.sendall(f"{nonce}\n".encode())
    mac, _, body = read_line(line).partition(" ")
    if not hmac.compare_digest(mac.encode(), _sign(key, nonce, body).encode()):
        return None
    return CommandRequest(*json.loads(body))


def frame(kind: bytes, data: bytes) -> bytes:
    """Returns one frame."""
    return _HEAD.pack(kind, len(data)) + data


def frames(line: socket.socket) -> Iterator[tuple[bytes, bytes]]:
    """Yields every frame until the other side closes. Raises OSError."""
    with line.makefile("rb") as file:
        while len(head := file.read(_HEAD.size)) == _HEAD.size:
            kind, length = _HEAD.unpack(head)
            yield kind, file.read(length)


def read_line(line: socket.socket) -> str:
    """Reads up to the newline. Raises OSError."""
    data = b""
    while not data.endswith(b"\n"):
        piece = line.recv(4096)
        if not piece or len(data) > _MAX_LINE_BYTES:
            raise OSError(104, "the other side closed the connection")
        data += piece
    return data[:-1].decode()


def _sign(key: str, nonce: str, body: str) -> str:
    return hmac.new(bytes.fromhex(key), f"{nonce} {body}".encode(), hashlib.sha256).hexdigest()
