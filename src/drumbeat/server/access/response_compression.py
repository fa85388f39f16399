"""Compressed responses of the API: JSON of more than a few kilobytes, for clients that accept gzip.

Event streams and files are sent as they are: an event must not wait for a compressor, and the ranges of a file refer
to its own bytes.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from anyio import to_thread
from starlette.datastructures import Headers, MutableHeaders

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MIN_BYTES = 4 << 10
"""A smaller response fits into a few packets as it is. The secrets of a session come only in small responses, so its
length says nothing of a secret.
"""
THREAD_BYTES = 64 << 10
"""From this size on, a thread compresses, so that other requests don't wait."""
LEVEL = 1
"""Shrinks curves and lists to a fifth; higher levels take twice the time for another tenth."""
GZIP = 16 + zlib.MAX_WBITS


class Compression:
    """ASGI middleware that compresses responses whose body comes in one piece."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith("/api/v1/"):
            await self.app(scope, receive, send)
            return
        await self.app(scope, receive, CompressibleAnswer(send, accepts_gzip=accepts_gzip(Headers(scope=scope))).send)


class CompressibleAnswer:
    """A response in progress. Its start is held back until the body shows whether it is compressed."""

    def __init__(self, send: Send, *, accepts_gzip: bool) -> None:
        self._send, self._accepts_gzip = send, accepts_gzip
        self._start: Message | None = None

    async def send(self, message: Message) -> None:
        """Passes a message on, compressed if it is a complete body that is large enough."""
        if message["type"] == "http.response.start" and is_plain_json(Headers(raw=message["headers"])):
            self._start = message
            return
        start, self._start = self._start, None
        if start is not None:
            message = await self._begun(start, message)
        await self._send(message)

    async def _begun(self, start: Message, message: Message) -> Message:
        body: bytes = message.get("body", b"")
        is_whole = message["type"] == "http.response.body" and not message.get("more_body", False)
        if is_whole and len(body) >= MIN_BYTES:
            headers = MutableHeaders(raw=list(start["headers"]))
            headers.add_vary_header("Accept-Encoding")
            if self._accepts_gzip:
                body = await to_thread.run_sync(gzipped, body) if len(body) >= THREAD_BYTES else gzipped(body)
                headers["Content-Encoding"], headers["Content-Length"] = "gzip", str(len(body))
            start, message = {**start, "headers": headers.raw}, {**message, "body": body}
        await self._send(start)
        return message


def is_plain_json(headers: Headers) -> bool:
    """Whether a response is JSON that isn't encoded yet and isn't a file with ranges."""
    is_json = headers.get("content-type", "").partition(";")[0] == "application/json"
    return is_json and not any(name in headers for name in ("content-encoding", "accept-ranges", "content-range"))


def accepts_gzip(headers: Headers) -> bool:
    """Whether the client accepts gzip: it is listed, and its weight isn't 0."""
    for part in headers.get("accept-encoding", "").lower().split(","):
        name, *parameters = (word.strip() for word in part.split(";"))
        if name in ("gzip", "*"):
            return not any(word.startswith("q=") and word[2:].strip("0.") == "" for word in parameters)
    return False


def gzipped(body: bytes) -> bytes:
    """The body as gzip."""
    return zlib.compress(body, LEVEL, GZIP)
