"""What a door and a shell say to each other over TCP.

The door begins with a nonce in hex and a newline. The shell answers with one line: the HMAC of nonce and request under
the round's key, a space, the request as JSON. Then both send frames: kind, length, bytes. The door: `o` and `e` of the
command's stdout and stderr, `x` its exit code. The shell: `s`, a signal's number, for the command; when it hangs up,
the command is ended.
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
_LONGEST = 1 << 20


@dataclass(frozen=True)
class Request:
    """What is asked for. command: shell text. places: folders of the asking node, by what they are to the job; where
    the command names one, the other node puts its own.
    """

    command: str
    places: dict[str, str] = field(default_factory=dict[str, str])


def ask(line: socket.socket, key: str, request: Request) -> None:
    """The shell's line, for the nonce that it reads. Raises OSError."""
    nonce = read_line(line)
    body = json.dumps([request.command, request.places])
    line.sendall(f"{_sign(key, nonce, body)} {body}\n".encode())


def answer(line: socket.socket, key: str, nonce: str) -> Request | None:
    """What is asked for, None when whoever asks doesn't know the key. Raises OSError."""
    line.sendall(f"{nonce}\n".encode())
    mac, _, body = read_line(line).partition(" ")
    if not hmac.compare_digest(mac.encode(), _sign(key, nonce, body).encode()):
        return None
    return Request(*json.loads(body))


def frame(kind: bytes, data: bytes) -> bytes:
    """One frame."""
    return _HEAD.pack(kind, len(data)) + data


def frames(line: socket.socket) -> Iterator[tuple[bytes, bytes]]:
    """Every frame until the other side closes. Raises OSError."""
    with line.makefile("rb") as file:
        while len(head := file.read(_HEAD.size)) == _HEAD.size:
            kind, length = _HEAD.unpack(head)
            yield kind, file.read(length)


def read_line(line: socket.socket) -> str:
    """Up to the newline. Raises OSError."""
    data = b""
    while not data.endswith(b"\n"):
        piece = line.recv(4096)
        if not piece or len(data) > _LONGEST:
            raise OSError(104, "the other side broke off")
        data += piece
    return data[:-1].decode()


def _sign(key: str, nonce: str, body: str) -> str:
    return hmac.new(bytes.fromhex(key), f"{nonce} {body}".encode(), hashlib.sha256).hexdigest()
