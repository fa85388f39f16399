"""Serves a mounted input as read-only WebDAV on loopback to the holder of its secret."""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable
from contextlib import closing
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import unquote, urlsplit

from drumbeat.model.errors import DrumbeatError
from drumbeat.model.input_listing import ListedFile
from drumbeat.node.inputs.fetching.store_client import StoreClient
from drumbeat.node.inputs.mounting.input_reader import RangeReader
from drumbeat.node.inputs.mounting.webdav_tree import Tree
from drumbeat.node.platform.http_listener import Listener

_RANGE = re.compile(r"bytes=(\d{1,18})-(\d{1,18})?", re.ASCII)
_MAX_BODY_BYTES = 1 << 20


class Dav:
    """A WebDAV server that listens as soon as it is made. say: takes a sentence about what can't be read."""

    def __init__(self, tree: Tree, reading: RangeReader, secret: str, say: Callable[[str], None]) -> None:
        self.tree, self.reading, self.secret, self.say = tree, reading, secret, say
        self._http = _Server(("127.0.0.1", 0), _Handler)
        self._http.owner = self
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._http.begin("dav")

    def close(self) -> None:
        """Listens no more."""
        self._http.end()


class _Server(Listener):
    owner: Dav


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16
    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride] (this handler is started by no other)

    def setup(self) -> None:
        super().setup()
        self._store: StoreClient | None = None

    def finish(self) -> None:
        if self._store is not None:
            self._store.close()
        super().finish()

    def do_PROPFIND(self) -> None:
        """Answers 207 with the properties of a path."""
        tree, path = self.server.owner.tree, self._path()
        if not self._is_welcome():
            return
        if tree.file(path) is None and not tree.is_folder(path):
            self._answer(404)
            return
        body = b"".join(tree.properties(path, is_deep=self.headers.get("Depth") != "0"))
        self._answer(207, body, {"Content-Type": "application/xml; charset=utf-8"})

    def do_HEAD(self) -> None:
        """Answers with the size of a file."""
        if self._is_welcome() and (file := self._file()) is not None:
            self._begin(200, file.size, {"Accept-Ranges": "bytes"})

    def do_GET(self) -> None:
        """Answers with a file, or one range of it."""
        if not self._is_welcome() or (file := self._file()) is None:
            return
        span = _span(self.headers.get("Range", ""), file.size)
        if span is None:
            self._answer(416, headers={"Content-Range": f"bytes */{file.size}"})
            return
        offset, length = span
        is_part = "Range" in self.headers
        where = {"Content-Range": f"bytes {offset}-{offset + length - 1}/{file.size}"} if is_part else {}
        self._send(file, offset, length, (206 if is_part else 200, where))

    def _send(self, file: ListedFile, offset: int, length: int, head: tuple[int, dict[str, str]]) -> None:
        """Refusals that come before the first byte are an answer; later ones break the line off."""
        owner = self.server.owner
        if self._store is None:
            self._store = owner.reading.store()
        has_begun = False
        try:
            with closing(owner.reading.read(self._store, file, offset, length)) as blocks:
                for block in blocks:
                    if not has_begun:
                        self._begin(head[0], length, {"Accept-Ranges": "bytes", **head[1]})
                        has_begun = True
                    self.wfile.write(block)
        except DrumbeatError as error:
            owner.say(f"{file.path} can't be read: {error}")
            self.close_connection = True
            if not has_begun:
                self._answer(410)
        else:
            if not has_begun:
                self._begin(head[0], length, head[1])

    # --- asking and answering -----------------------------------------------------------------------------------
    def _is_welcome(self) -> bool:
        """Whether the request carries the secret. Its body is read first, as the connection is reused."""
        length = self.headers.get("Content-Length", "0")
        if not length.isdecimal() or int(length) > _MAX_BODY_BYTES:
            self.close_connection = True
            self._answer(413)
            return False
        self.rfile.read(int(length))
        shown = self.headers.get("Authorization", "")
        wanted = f"Bearer {self.server.owner.secret}"
        if not hmac.compare_digest(shown.encode("latin-1", "replace"), wanted.encode()):
            self._answer(403)
            return False
        return True

    def _path(self) -> str:
        return unquote(urlsplit(self.path).path, errors="surrogateescape").strip("/")

    def _file(self) -> ListedFile | None:
        file = self.server.owner.tree.file(self._path())
        if file is None:
            self._answer(404)
        return file

    def _answer(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self._begin(status, len(body), headers or {})
        self.wfile.write(body)

    def _begin(self, status: int, length: int, headers: dict[str, str]) -> None:
        self.send_response_only(status)
        self.send_header("Content-Length", str(length))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


def _span(header: str, size: int) -> tuple[int, int] | None:
    """Parses a Range header to (offset, length); None = it lies beyond the end, or is invalid."""
    if not header:
        return 0, size
    match = _RANGE.fullmatch(header)
    if match is None or int(match[1]) >= size:
        return None
    last = min(size - 1, int(match[2])) if match[2] else size - 1
    return (int(match[1]), last + 1 - int(match[1])) if last >= int(match[1]) else None
