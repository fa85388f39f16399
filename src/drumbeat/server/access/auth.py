"""Who may speak: the host and origin of every request, and the token of every request that isn't an agent's."""

from __future__ import annotations

from collections.abc import Iterable
from secrets import compare_digest
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from drumbeat.protocol.errors import DrumbeatError, ForbiddenError, UnauthorizedError
from drumbeat.server import errors

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
AGENTS = "/agent/v1/"
"""Below this path an attempt's own secret stands in for the token; the control room checks it."""


def allowed_hosts(port: int, told: Iterable[str] = ()) -> frozenset[str]:
    """What a `Host` header may say: loopback with our port, and the names told, bare and with our port."""
    bare = [name.lower() for name in told]
    return frozenset([f"{name}:{port}" for name in (*LOOPBACK, *bare)] + bare)


def bearer(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """The token in the `Authorization` header; "" = none."""
    given = values(headers, b"authorization")
    scheme, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
    return token.strip() if scheme.lower() == "bearer" else ""


class Guard:
    """Stands before the app and lets through what may enter. Pure ASGI: nothing is read, nothing is buffered."""

    def __init__(self, app: ASGIApp, *, token: str, hosts: frozenset[str]) -> None:
        self.app, self.token, self.hosts = app, token.encode(), hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        refusal = self.refusal(scope)
        if refusal is None:
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await errors.response(refusal)(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    def refusal(self, scope: Scope) -> DrumbeatError | None:
        """Why this request may not enter, if it may not."""
        hosts, origins = values(scope["headers"], b"host"), values(scope["headers"], b"origin")
        if len(hosts) != 1 or hosts[0].lower() not in self.hosts:
            named = hosts[0][:100] if hosts else "none"
            return ForbiddenError("this server doesn't go by that host name", where=f"Host: {named}", fix=ALLOW_HOST)
        if any(not self.is_own(origin) for origin in origins):
            return ForbiddenError("a page of another origin may not call this server", where=f"Origin: {origins[0]}")
        if scope["path"].startswith(AGENTS):
            return None
        given = bearer(scope["headers"])
        if not given:
            return UnauthorizedError("a token is needed", fix=TOKEN)
        if not compare_digest(given.encode(), self.token):
            return UnauthorizedError("that token is wrong", fix=TOKEN)
        return None

    def is_own(self, origin: str) -> bool:
        """Whether a page of that origin came from this server."""
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        return parts.scheme in ("http", "https") and not parts.path and parts.netloc.lower() in self.hosts


ALLOW_HOST = "Start the server with --allow-host NAME if the name is meant."
TOKEN = "Send `Authorization: Bearer …` with what is in the file `token` in the server's home folder."  # noqa: S105


def values(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> list[str]:
    """All values of a header. name: in small letters."""
    return [value.decode("latin-1") for key, value in headers if key == name]
