"""Serves this node's inputs to the other nodes of its gang: pieces of large files, also while these grow, and small
files many at a time.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import re
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any

from drumbeat.model import small_file_bundles
from drumbeat.node.host.machine import boot
from drumbeat.node.inputs.cache.files import Files
from drumbeat.node.inputs.cache.partial_file import PIECE, read_piece
from drumbeat.node.inputs.fetching.peer_client import PROGRESS, PROOF, answer_proof, ask_proof, files_proof
from drumbeat.node.platform.http_listener import Listener

WAIT_S = 1.0
"""How long a piece that isn't there yet is waited for."""
_LOOK_S = 0.02
_QUIET_S = 0.1
"""How long more of the files that are asked for at once are waited for, when some are there."""
_IDLE_S = 60.0
ReadOwn = Callable[[int, int], bytes]
"""Reads bytes of a file: offset, length. Raises OSError."""
_ASKED = re.compile(r"/([0-9a-f]{64})/(\d{1,18})/(\d{1,9})", re.ASCII)


def cache_name(files: Files) -> str:
    """Names a folder of data among those of all machines: nodes that have the same needn't pass anything on."""
    here = os.stat(files.folder)
    return f"{boot()}:{here.st_dev}:{here.st_ino}"


class DataServer:
    """Serves inputs to other nodes on `address`, or on all addresses of the node if that isn't one of them.

    names: of the files that the job has as inputs; no others are served.
    """

    def __init__(self, files: Files, address: str, secret: str) -> None:
        self.files, self.secret = files, secret
        self.names: frozenset[str] = frozenset()
        self._own: Mapping[str, ReadOwn] = {}
        self._progress: tuple[Callable[[], int], ...] = ()
        self._lock = threading.Lock()
        self._http = _listen(address)
        self._http.owner = self
        self.port: int = self._http.server_address[1]
        self._http.begin("serving")

    def add(self, names: Iterable[str], progress: Callable[[], int] | None = None) -> None:
        """Serves more files of the cache. progress: how far this node is in fetching them."""
        with self._lock:
            self.names |= frozenset(names)
            self._progress += (progress,) if progress else ()

    def add_own(self, own: Mapping[str, ReadOwn]) -> None:
        """Serves files of this node that lie outside of the cache, by name."""
        with self._lock:
            self._own = {**self._own, **own}
        self.add(own)

    def progress(self) -> int:
        """How far this node is; it changes while the node gets on."""
        return sum(one() for one in self._progress)

    def read(self, name: str, offset: int, length: int) -> bytes | None:
        """Bytes of a file that is served, None = they aren't here (yet)."""
        if name not in self.names:
            return None
        if own := self._own.get(name):
            with contextlib.suppress(OSError):
                return own(offset, length)
        return read_piece(self.files, name, offset, length)

    def close(self) -> None:
        """Listens no more."""
        self._http.end()


class _Server(Listener):
    owner: DataServer


class _Six(_Server):
    address_family = socket.AF_INET6


def _listen(address: str) -> _Server:
    kind = _Six if ":" in address else _Server
    try:
        return kind((address, 0), _Handler)
    except OSError:
        return kind(("", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16
    timeout = _IDLE_S
    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride] (this handler is started by no other)

    def do_GET(self) -> None:
        """`/{name}/{offset}/{length}`: 200 with the bytes, 202 = not yet."""
        match = _ASKED.fullmatch(self.path)
        if match is None or not 0 < int(match[3]) <= PIECE:
            self._answer(404, b"", {})
            return
        name, offset, length = match[1], int(match[2]), int(match[3])
        proof = ask_proof(self.server.owner.secret, name, offset, length)
        if self._knows_the_secret(proof):
            body = self._wait_for(name, offset, length)
            self._pass_on(proof, body if body is not None and len(body) == length else None)

    def do_POST(self) -> None:
        """`/files`: 200 with those of the small files that are there, 202 = none yet."""
        size = self.headers.get("Content-Length", "")
        if self.path != "/files" or not size.isdecimal() or not 0 < int(size) <= small_file_bundles.LONGEST:
            self.close_connection = True  # The request's body isn't read.
            self._answer(404, b"", {})
            return
        asked = self.rfile.read(int(size))
        proof = files_proof(self.server.owner.secret, asked)
        if self._knows_the_secret(proof):
            try:
                self._pass_on(proof, self._wait_for_files(small_file_bundles.names(asked)))
            except ValueError:
                self._answer(404, b"", {})

    def _knows_the_secret(self, proof: str) -> bool:
        shown = self.headers.get("Authorization", "").removeprefix("Proof ")
        if hmac.compare_digest(proof.encode(), shown.encode("latin-1", "replace")):
            return True
        self._answer(403, b"", {})
        return False

    def _pass_on(self, proof: str, body: bytes | None) -> None:
        owner = self.server.owner
        if body is None:
            self._answer(202, b"", {PROGRESS: str(owner.progress())})
        else:
            self._answer(200, body, {PROOF: answer_proof(owner.secret, proof, body)})

    def _wait_for(self, name: str, offset: int, length: int) -> bytes | None:
        owner, end = self.server.owner, time.monotonic() + WAIT_S
        while True:
            if (body := owner.read(name, offset, length)) is not None:
                return body
            if time.monotonic() >= end:
                return None
            time.sleep(_LOOK_S)

    def _wait_for_files(self, sizes: Mapping[str, int]) -> bytes | None:
        """Waits for all of the files; returns those that exist once no more have come for a while, None for none."""
        files, left = dict[str, bytes](), deque(sizes)
        began = moved_at = time.monotonic()
        while left:
            if self._take_file(left[0], sizes[left[0]], files):
                left.popleft()
                moved_at = time.monotonic()
            elif time.monotonic() - moved_at < (_QUIET_S if files else WAIT_S) and time.monotonic() - began < WAIT_S:
                time.sleep(_LOOK_S)
            else:
                for name in left:  # The first missing one may be the only one.
                    self._take_file(name, sizes[name], files)
                break
        return small_file_bundles.answer(sizes, files) if files else None

    def _take_file(self, name: str, size: int, files: dict[str, bytes]) -> bool:
        body = self.server.owner.read(name, 0, size)
        if body is None or len(body) != size:
            return False
        files[name] = body
        return True

    def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response_only(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""
