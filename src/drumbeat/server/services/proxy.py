"""Proxies a browser's connection to a service, request by request over a tunnel of its own, and WebSockets.

h11 parses and writes both sides, so only well-formed messages pass; after `101 Switching Protocols`, bytes pass
unchanged.
"""

from __future__ import annotations

import asyncio
import html
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

import h11

from drumbeat.model.errors import ConflictError, DrumbeatError, RefusedError, UnreachableError
from drumbeat.server.access.page_sessions import SESSION_LIFETIME_S
from drumbeat.server.errors import http_status
from drumbeat.server.nodes.tunnels import Tunnel
from drumbeat.server.services.headers import Header, is_upgrade, to_browser, to_service
from drumbeat.server.services.service_access import OPEN, ServiceAdmission, ServiceAuthorizer

T = TypeVar("T")

HEAD_TIMEOUT_S = 75.0
"""Timeout for an idle connection and for the head of a request."""
_PIECE_BYTES = 64 << 10
_MAX_HEAD = 64 << 10
_PAGE = (
    '<!doctype html><html lang="en"><meta charset="utf-8">{more}<title>drumbeat</title>'
    "<h1>{title}</h1><p>{text}</p></html>"
)
_RETRY = '<meta http-equiv="refresh" content="3">'
_CLEARED = (b"Clear-Site-Data", b'"storage"')
"""Clears the storage of another service that may have had this port, and thus this origin, before."""
_GO = '<meta http-equiv="refresh" content="0; url=/">'
_GONE = (OSError, h11.RemoteProtocolError, h11.LocalProtocolError, TimeoutError)


class Gone(Exception):
    """The browser or the service has closed its connection."""


class Reader(asyncio.StreamReader):
    """A stream whose end can be awaited without reading it."""

    def __init__(self) -> None:
        super().__init__(limit=_PIECE_BYTES)
        self.is_gone = asyncio.Event()

    def feed_eof(self) -> None:
        """Called by asyncio at the end of the stream."""
        super().feed_eof()
        self.is_gone.set()

    def set_exception(self, exc: Exception) -> None:
        """Called by asyncio when the connection breaks."""
        super().set_exception(exc)
        self.is_gone.set()


@dataclass(frozen=True)
class ServiceTarget:
    """The service behind a port."""

    authorizer: ServiceAuthorizer
    open_tunnel: Callable[[str], Awaitable[Tunnel]]
    """Opens a tunnel for a user. Raises DrumbeatError."""
    close_tunnel: Callable[[Tunnel], Awaitable[None]]
    token: str = ""
    """JupyterLab's token, "" = none."""


class Upstream:
    """The connection to the service: HTTP over a tunnel."""

    def __init__(self, tunnel: Tunnel) -> None:
        self.tunnel, self.http = tunnel, h11.Connection(h11.CLIENT, _MAX_HEAD)
        tunnel.is_used = True

    async def send(self, event: h11.Event) -> None:
        """Sends a part of a request."""
        if data := self.http.send(event):
            await self.tunnel.to_node.put(data)

    async def receive(self) -> h11.Event | type[h11.PAUSED]:
        """Receives the next part of a response."""
        while (event := self.http.next_event()) is h11.NEED_DATA:
            self.http.receive_data(await self.tunnel.from_node.get())
        if isinstance(event, h11.ConnectionClosed):
            raise Gone
        return event  # type: ignore[return-value] # NEED_DATA was left out above


class BrowserConnection:
    """Serves one connection to its end."""

    def __init__(self, target: ServiceTarget, reader: Reader, writer: asyncio.StreamWriter) -> None:
        self._target, self._reader, self._writer = target, reader, writer
        self._http = h11.Connection(h11.SERVER, _MAX_HEAD)
        self._upstream: Upstream | None = None

    async def serve(self) -> None:
        """Answers requests until either side closes."""
        try:
            while await self._exchange():
                self._http.start_next_cycle()
        except (Gone, *_GONE):
            pass
        finally:
            await self._drop_upstream()
            self._writer.close()

    async def _exchange(self) -> bool:
        """Answers one request. Returns whether another one may follow."""
        async with asyncio.timeout(HEAD_TIMEOUT_S):
            request = await self._receive()
        if not isinstance(request, h11.Request):
            return False
        headers = list(request.headers.raw_items())
        try:
            origin = self._target.authorizer.origin(headers)
            if not request.target.startswith(b"/"):
                raise RefusedError("this isn't a proxy for other addresses")
            if request.target.startswith(OPEN.encode()) and request.method == b"GET":
                await self._open_link(request.target[len(OPEN) :].decode("latin-1"))
                return False
            entry = await self._target.authorizer.authorize(headers)
            upstream = await self._connected(entry)
        except DrumbeatError as error:
            await self._refuse(error)
            return False
        passed = to_service(headers, origin, has_own_token=entry.has_own_token, token=self._target.token)
        await upstream.send(h11.Request(method=request.method, target=request.target, headers=passed))
        return await self._pass(upstream, is_upgrade=is_upgrade(headers))

    async def _connected(self, entry: ServiceAdmission) -> Upstream:
        """Returns the connection to the service, reused from the previous request if possible. Raises DrumbeatError."""
        if self._upstream is not None:
            http, tunnel = self._upstream.http, self._upstream.tunnel
            if http.our_state is http.their_state is h11.DONE and not tunnel.from_node.is_over:
                http.start_next_cycle()
                return self._upstream
            await self._drop_upstream()
        self._upstream = Upstream(await self._target.open_tunnel(entry.principal.user))
        self._upstream.tunnel.digest = entry.digest
        return self._upstream

    async def _drop_upstream(self) -> None:
        if self._upstream is not None:
            upstream, self._upstream = self._upstream, None
            await self._target.close_tunnel(upstream.tunnel)

    # --- one exchange -------------------------------------------------------------------------------------------------
    async def _pass(self, upstream: Upstream, *, is_upgrade: bool) -> bool:
        """Passes the request's body and the response. Returns whether the connection may be reused."""
        body = asyncio.create_task(self._pass_body(upstream))
        try:
            is_switched = await self._pass_answer(upstream)
            if is_switched and is_upgrade:
                await body
                await self._splice(upstream)
                return False
            return body.done() and self._http.our_state is h11.DONE and self._http.their_state is h11.DONE
        finally:
            body.cancel()
            with suppress(asyncio.CancelledError, Gone, *_GONE):
                await body

    async def _pass_body(self, upstream: Upstream) -> None:
        while True:
            event = await self._receive()
            if isinstance(event, h11.Data | h11.EndOfMessage):
                await upstream.send(_plain(event))
            if not isinstance(event, h11.Data):
                return

    async def _pass_answer(self, upstream: Upstream) -> bool:
        """Passes the complete response. Returns whether it was `101 Switching Protocols`."""
        while True:
            event = await self._unless_gone(upstream.receive())
            if isinstance(event, h11.InformationalResponse):
                is_switch = event.status_code == 101
                passed = to_browser(list(event.headers.raw_items())) if is_switch else []
                await self._send(h11.InformationalResponse(status_code=event.status_code, headers=passed))
                if is_switch:
                    return True
            elif isinstance(event, h11.Response):
                passed = to_browser(list(event.headers.raw_items()))
                await self._send(h11.Response(status_code=event.status_code, headers=passed, reason=event.reason))
            elif isinstance(event, h11.Data | h11.EndOfMessage):
                await self._send(_plain(event))
                if isinstance(event, h11.EndOfMessage):
                    return False
            else:  # The service switched its protocol without a request.
                raise Gone

    async def _splice(self, upstream: Upstream) -> None:
        """Passes bytes in both directions until either side ends."""
        early, late = self._http.trailing_data[0], upstream.http.trailing_data[0]
        both = [
            asyncio.create_task(self._splice_up(upstream.tunnel, early)),
            asyncio.create_task(self._splice_down(upstream.tunnel, late)),
        ]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in both:
                one.cancel()
            await asyncio.gather(*both, return_exceptions=True)

    async def _splice_up(self, tunnel: Tunnel, early: bytes) -> None:
        piece = early or await self._reader.read(_PIECE_BYTES)
        while piece:
            await tunnel.to_node.put(piece)
            piece = await self._reader.read(_PIECE_BYTES)

    async def _splice_down(self, tunnel: Tunnel, late: bytes) -> None:
        piece = late or await tunnel.from_node.get()
        while piece:
            self._writer.write(piece)
            await self._writer.drain()
            piece = await tunnel.from_node.get()

    # --- the browser --------------------------------------------------------------------------------------------------
    async def _receive(self) -> object:
        """Receives the next part of a request."""
        while (event := self._http.next_event()) is h11.NEED_DATA:
            if self._http.they_are_waiting_for_100_continue:
                await self._send(h11.InformationalResponse(status_code=100, headers=[]))
            self._http.receive_data(await self._reader.read(_PIECE_BYTES))
        if isinstance(event, h11.ConnectionClosed):
            raise Gone
        return event

    async def _send(self, event: h11.Event) -> None:
        if data := self._http.send(event):
            self._writer.write(data)
            await self._writer.drain()

    async def _unless_gone(self, work: Awaitable[T]) -> T:
        """Returns the result of `work`, and cancels it if the browser disconnects, so that the service can stop."""
        task = asyncio.ensure_future(work)
        gone = asyncio.ensure_future(self._reader.is_gone.wait())
        try:
            await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise Gone
        finally:
            for one in (task, gone):
                one.cancel()

    # --- drumbeat's own responses ---------------------------------------------------------------------------------
    async def _open_link(self, code: str) -> None:
        """Turns a one-time link into this port's cookie."""
        sessions = self._target.authorizer.sessions
        session = sessions.open(code)
        if session is None:
            await self._answer(410, "This link was used or has expired", "Run <code>drumbeat open</code> for another.")
            return
        cookie = f"{sessions.cookie}={session}; Max-Age={SESSION_LIFETIME_S}; Path=/; HttpOnly; SameSite=Strict"
        cookie += "; Secure" if self._target.authorizer.has_tls else ""
        # A page instead of a redirect, because for a redirect the browser names another origin as the requester.
        await self._answer(
            200, "Opening the service", "", more=_GO, headers=[(b"Set-Cookie", cookie.encode()), _CLEARED]
        )

    async def _refuse(self, error: DrumbeatError) -> None:
        """Answers with an error page, which retries while a service doesn't answer yet."""
        may_pass = isinstance(error, ConflictError | UnreachableError)
        text = html.escape(" ".join(filter(None, [f"{error.what}.", error.fix])))
        await self._answer(503 if may_pass else http_status(error), "drumbeat", text, more=_RETRY if may_pass else "")

    async def _answer(
        self, status: int, title: str, text: str, more: str = "", headers: list[Header] | None = None
    ) -> None:
        """Sends a page and closes the connection."""
        body = _PAGE.format(title=title, text=text, more=more).encode()
        sent: list[Header] = [
            (b"Content-Type", b"text/html; charset=utf-8"), (b"Content-Length", str(len(body)).encode()),
            (b"Cache-Control", b"no-store"), (b"Content-Security-Policy", b"default-src 'none'"),
            (b"Connection", b"close"), *(headers or []),
        ]  # fmt: skip
        await self._send(h11.Response(status_code=status, headers=sent))
        await self._send(h11.Data(data=body))
        await self._send(h11.EndOfMessage())


def _plain(event: h11.Data | h11.EndOfMessage) -> h11.Event:
    """Returns a part of a body without the properties of its connection."""
    return h11.Data(data=event.data) if isinstance(event, h11.Data) else h11.EndOfMessage()
