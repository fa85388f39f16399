"""A store in memory, served over loopback HTTP where links are wanted; it does wrong when a test says so."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import quote, unquote, urlsplit

from drumbeat.model.api.data import Written
from drumbeat.model.errors import ConflictError, NotFoundError, RefusedError
from drumbeat.model.input_listing import Link, ListedFile, Listing, listing
from drumbeat.ports.data import Entry

ROOT = "memory://store"
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")


@dataclass
class Asked:
    """One GET of the store. offset, length: of the bytes that are asked for."""

    path: str
    offset: int
    length: int
    token: str


@dataclass
class Answer:
    """What the store does instead of what is right. pause: called before each piece of the body.

    cut: ends the connection after so many bytes. body: of the right length or not. is_chunked: without its length.
    """

    status: int = 206
    body: bytes | None = None
    cut: int | None = None
    headers: dict[str, str] = field(default_factory=dict[str, str])
    pause: Callable[[], None] | None = None
    is_chunked: bool = False


class MemoryData:
    """The `DataAccess` port. files: content by path below `memory://store`. Use it in a `with` when links are wanted.

    tells_sha256: whether listings have it. is_linked: whether nodes get links. spoil: what to do wrong with a request,
    None = nothing. asked: every GET so far. sent: bytes of bodies so far.
    """

    def __init__(self, files: dict[str, bytes] | None = None, *, tells_sha256: bool = True) -> None:
        self.files = dict(files or {})
        self.tells_sha256, self.is_linked = tells_sha256, True
        self.spoil: Callable[[Asked], Answer | None] = lambda _asked: None
        self.asked: list[Asked] = []
        self.sent = self.listings = self.linked = 0
        self.token = "first"
        """Only links with it work: another one makes all that were given expire."""
        self.lock = threading.Lock()
        self._http: _Server | None = None

    def __enter__(self) -> Self:
        return self.serve()

    def serve(self, host: str = "127.0.0.1") -> Self:
        """Listens at a free port."""
        self._http = _Server((host, 0), _Handler)
        self._http.store = self
        self.url = f"http://{host}:{self._http.server_address[1]}"
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Listens no more."""
        if self._http is not None:
            self._http.shutdown()
            self._http.server_close()
            self._http = None

    # --- the port ---------------------------------------------------------------------------------------------
    def listing(self, uri: str, *, is_file: bool) -> Listing:
        """What is there now."""
        self.listings += 1
        below = _path(uri)
        if is_file:
            return listing([self._listed(below, below.rpartition("/")[2])], is_file=True)
        prefix = f"{below}/" if below else ""
        found = [self._listed(path, path[len(prefix) :]) for path in self.files if path.startswith(prefix)]
        if not found:
            raise NotFoundError(f"there is nothing at {uri}")
        return listing(found)

    def links(self, uri: str, files: Sequence[ListedFile], lifetime_s: float) -> list[Link | None]:
        """Each by `link`."""
        return [self.link(uri, file, lifetime_s) for file in files]

    def link(self, uri: str, file: ListedFile, lifetime_s: float) -> Link | None:
        """With a token that stands for a signature."""
        del lifetime_s
        self.linked += 1
        if self._http is None or not self.is_linked:
            return None
        return Link(f"{self.url}/{quote(self._at(uri, file))}?token={self.token}", {"X-Sent-Along": "yes"})

    def folder(self, uri: str) -> str:
        """It lies in no folder."""
        del uri
        return ""

    def read(self, uri: str, file: ListedFile, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        """In small pieces."""
        content = self.content(self._at(uri, file))
        if self._key(content) != file.key:
            raise ConflictError(f"{file.path} isn't what it was when the job was made")
        end = len(content) if length is None else offset + length
        for at in range(offset, end, 1 << 16):
            yield content[at : min(end, at + (1 << 16))]

    def write(self, uri: str, path: str, pieces: Iterable[bytes], size: int) -> Written:
        """Whole or not at all."""
        content = b"".join(pieces)
        if len(content) != size:
            raise ConflictError(f"{path} was to have {size} bytes and has {len(content)}")
        self.files[f"{_path(uri)}/{path}".strip("/")] = content
        return Written(path, size, hashlib.sha256(content).hexdigest())

    def write_link(self, uri: str, lifetime_s: float) -> Link:
        """It gives none."""
        del lifetime_s
        raise RefusedError("the store in memory signs no links to write at", where=uri)

    def entries(self, uri: str) -> Sequence[Entry]:
        """What lies directly there."""
        below = f"{_path(uri)}/" if _path(uri) else ""
        inside = [(path[len(below) :], content) for path, content in self.files.items() if path.startswith(below)]
        folders = {path.partition("/")[0] for path, _ in inside if "/" in path}
        plain = [Entry(path, len(content)) for path, content in inside if "/" not in path]
        return [*(Entry(name, is_folder=True) for name in sorted(folders)), *plain]

    def remove(self, uri: str, path: str) -> None:
        """Takes it away."""
        self.files.pop(f"{_path(uri)}/{path}".strip("/"), None)

    # --- inside -----------------------------------------------------------------------------------------------
    def content(self, path: str) -> bytes:
        """Raises NotFoundError."""
        try:
            return self.files[path]
        except KeyError:
            raise NotFoundError(f"there is nothing at {ROOT}/{path}") from None

    def _listed(self, path: str, name: str) -> ListedFile:
        content = self.content(path)
        sha256 = hashlib.sha256(content).hexdigest() if self.tells_sha256 else ""
        return ListedFile(name, len(content), self._key(content), sha256)

    def _key(self, content: bytes) -> str:
        return hashlib.sha256(content if self.tells_sha256 else b"tag:" + content).hexdigest()

    def _at(self, uri: str, file: ListedFile) -> str:
        below = _path(uri)
        return below if below in self.files else f"{below}/{file.path}".strip("/")


def _path(uri: str) -> str:
    return unquote(uri.removeprefix(ROOT).strip("/"))


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    store: MemoryData

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that broke is what these tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride] (this handler is started by no other)

    def do_GET(self) -> None:
        """A file, or a range of it."""
        store = self.server.store
        parts = urlsplit(self.path)
        content = store.files.get(unquote(parts.path[1:]), b"")
        offset, end = self._range(len(content))
        asked = Asked(unquote(parts.path[1:]), offset, end - offset, parts.query.removeprefix("token="))
        with store.lock:
            store.asked.append(asked)
        self._send(store.spoil(asked) or self._right(asked, content), content, offset, end)

    def _right(self, asked: Asked, content: bytes) -> Answer:
        store = self.server.store
        if asked.token != store.token:
            return Answer(403, b"expired")
        if asked.path not in store.files:
            return Answer(404, b"nothing here")
        return Answer(206) if asked.length < len(content) or "Range" in self.headers else Answer(200)

    def _range(self, size: int) -> tuple[int, int]:
        found = _RANGE.fullmatch(self.headers.get("Range", ""))
        if found is None:
            return 0, size
        return int(found[1]), min(size, int(found[2]) + 1 if found[2] else size)

    def _send(self, answer: Answer, content: bytes, offset: int, end: int) -> None:
        body = content[offset:end] if answer.body is None else answer.body
        self.send_response(answer.status)
        length = ("Transfer-Encoding", "chunked") if answer.is_chunked else ("Content-Length", str(len(body)))
        self.send_header(*length)
        self.send_header("ETag", f'"{hashlib.md5(content, usedforsecurity=False).hexdigest()}"')
        if answer.status == 206:
            self.send_header("Content-Range", f"bytes {offset}-{end - 1}/{len(content)}")
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        for at in range(0, len(body), 1 << 16):
            if answer.pause is not None:
                answer.pause()
            if answer.cut is not None and at + (1 << 16) > answer.cut:
                self.wfile.write(body[at : answer.cut])
                self.close_connection = True
                return
            piece = body[at : at + (1 << 16)]
            with self.server.store.lock:  # Before it: who has all of it may look at once.
                self.server.store.sent += len(piece)
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece) if answer.is_chunked else piece)
        if answer.is_chunked:
            self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""
