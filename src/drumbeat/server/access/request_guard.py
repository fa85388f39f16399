"""Who may speak: the host and origin of every request, and the principal of every request that isn't an agent's."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from anyio import to_thread

from drumbeat.model.errors import DrumbeatError, ForbiddenError, NotFoundError, UnauthorizedError
from drumbeat.model.principal import Principal, Role
from drumbeat.server import errors
from drumbeat.server.access import audit, permissions
from drumbeat.server.access.callers import Callers
from drumbeat.server.access.page_sessions import PageSessions

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
AGENTS = "/agent/v1/"
"""Below this path a node's own secret stands in for the token."""
AGENT_CALL = re.compile(r"/agent/v1/([^/]+)/(\d{1,9})/(\d{1,9})/.+", re.ASCII | re.DOTALL)
"""A job, an attempt, a node, and what its agent asks."""
CheckSecret = Callable[[str, int, int, str], None]
"""Raises UnauthorizedError for a secret that isn't the one of that node of that job's attempt; it doesn't block."""
LAST = {"Connection": "close"}
"""For an answer after which nothing more of a request is read."""
PAGE = "/ui"
"""The web page's files are for everybody who may reach the server: they hold no data."""
PRINTED_BY_MLFLOW = "/mlflow/"
"""The address that MLflow's clients print at the end of a run, before a `#`: it leads to the web page."""
ACTION_HEADER = b"drumbeat-action"
"""The header in which the page sends its session's action token."""
HEALTH = ("/healthz", "/readyz")
"""Open to everyone, under any name of the server: they say only whether it is well."""


def allowed_hosts(port: int, told: Iterable[str] = ()) -> frozenset[str]:
    """What a `Host` header may say: loopback with our port, and the names told, bare and with our port."""
    bare = [name.lower() for name in told]
    return frozenset([f"{name}:{port}" for name in (*LOOPBACK, *bare)] + bare)


def bearer(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """The token in the `Authorization` header; "" = none."""
    given = values(headers, b"authorization")
    scheme, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
    return token.strip() if scheme.lower() == "bearer" else ""


RequireOwn = Callable[[Principal, str], None]
"""Raises ForbiddenError unless a job is a principal's to change; it may block."""


def require_secret(scope: Scope, check: CheckSecret) -> None:
    """Refuses the call of an agent that doesn't show its node's secret, before anything of its body is read.

    Whether the attempt may still speak, the control room decides. Raises NotFoundError, UnauthorizedError.
    """
    call = AGENT_CALL.fullmatch(scope["path"])
    if call is None:
        raise NotFoundError("there is nothing at this address", where=scope["path"][:200])
    check(call[1], int(call[2]), int(call[3]), bearer(scope["headers"]))


class Guard:
    """Stands before the app and lets through what may enter. Pure ASGI: nothing is read, nothing is buffered.

    check: of agents' secrets.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        callers: Callers,
        hosts: frozenset[str],
        check: CheckSecret,
        sessions: PageSessions | None = None,
        require_own: RequireOwn | None = None,
    ) -> None:
        self.app, self.callers, self.hosts, self.check, self.sessions = app, callers, hosts, check, sessions
        self.require_own = require_own

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        try:
            principal = await self.principal(scope)
        except DrumbeatError as error:
            if scope["type"] == "http":
                # A client that isn't let in keeps no connection, and isn't read to the end of its body.
                await errors.response(error, headers=LAST)(scope, receive, send)
            else:
                await send({"type": "websocket.close", "code": 1008})
            return
        if principal is not None:
            scope.setdefault("state", {})["principal"] = principal
            send = audit.noted(send, scope, principal)
        await self.app(scope, receive, send)

    async def principal(self, scope: Scope) -> Principal | None:
        """Returns who asks; None for agents, health checks and the web page's files, which need no token.

        Raises UnauthorizedError, ForbiddenError, NotFoundError; AwayError when the store can't be asked.
        """
        if scope["path"] in HEALTH and scope.get("method") in permissions.READING:
            return None
        if refusal := self._refusal_of_origin(scope):
            raise refusal
        if scope["path"].startswith(AGENTS):
            require_secret(scope, self.check)
            return None
        if is_page(scope):
            return None
        principal = await self._caller(scope)
        try:
            await self._require_permission(principal, scope.get("method", "CONNECT"), scope["path"])
        except ForbiddenError as refusal:
            audit.note(scope, principal, errors.status_of(refusal))
            raise
        return principal

    async def _require_permission(self, principal: Principal, method: str, path: str) -> None:
        """Raises ForbiddenError for what the role doesn't allow, and for a job of another person."""
        if refusal := permissions.refusal(principal, method, path):
            raise refusal
        if principal.role is not Role.OWNER and self.require_own and (job := permissions.job_changed(method, path)):
            await to_thread.run_sync(self.require_own, principal, job, abandon_on_cancel=True)

    async def _caller(self, scope: Scope) -> Principal:
        given, session = bearer(scope["headers"]), ""
        if not given and (session := self.session(scope)) and (refusal := self._refusal_of_session(scope, session)):
            raise refusal
        if not given and not session:
            raise UnauthorizedError("a token is needed", fix=TOKEN)
        if session and self.sessions:
            principal = await self.callers.of_digest(self.sessions.digest_of(session))
        else:
            principal = await self.callers.of_token(given)
        if principal is None:
            raise UnauthorizedError("that token is wrong, or was removed", fix=TOKEN)
        return principal

    def _refusal_of_origin(self, scope: Scope) -> DrumbeatError | None:
        """Why a request for this host, or from this origin, may not enter."""
        hosts, origins = values(scope["headers"], b"host"), values(scope["headers"], b"origin")
        # No browser calls at the Unix socket in the home: `server` is its path and None (ASGI).
        _, port = scope.get("server") or ("", 0)
        if port is not None and (len(hosts) != 1 or hosts[0].lower() not in self.hosts):
            named = hosts[0][:100] if hosts else "none"
            return ForbiddenError("this server doesn't go by that host name", where=f"Host: {named}", fix=ALLOW_HOST)
        if any(not self.is_own(origin) for origin in origins):
            return ForbiddenError("a page of another origin may not call this server", where=f"Origin: {origins[0]}")
        return None

    def session(self, scope: Scope) -> str:
        """The session of the web page whose cookie the request carries; "" = none that is valid."""
        return valid_session(scope["headers"], self.sessions) if self.sessions else ""

    def _refusal_of_session(self, scope: Scope, session: str) -> DrumbeatError | None:
        """Why a request of the web page may not enter, if it may not.

        A cookie goes with every request that a browser makes, whichever page asked for it; `SameSite` lets pages of
        this machine's other ports through. So what the browser says of the asking page is checked, and whatever
        changes anything needs the action token.
        """
        headers, sessions = scope["headers"], self.sessions
        sites = values(headers, b"sec-fetch-site")
        if any(site not in ("same-origin", "none") for site in sites):
            return ForbiddenError("a page of another origin may not call this server", where=f"site: {sites[0]}")
        if scope["method"] in permissions.READING:
            return None
        given = values(headers, ACTION_HEADER)
        if sessions is None or len(given) != 1 or not sessions.may_act(session, given[0]):
            return ForbiddenError("an action of the page needs its session's action token", fix=RELOAD)
        if not values(headers, b"origin"):
            return ForbiddenError("an action of the page needs its origin", fix=RELOAD)
        return None

    def is_own(self, origin: str) -> bool:
        """Whether a page of that origin came from this server."""
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        return parts.scheme in ("http", "https") and not parts.path and parts.netloc.lower() in self.hosts


ALLOW_HOST = "Start the server with --allow-host NAME if the name is meant."
RELOAD = "Reload the page; `drumbeat ui` opens it again."
TOKEN = (
    "Send `Authorization: Bearer …` with your token, or with what is in the file `token` in the server's home folder."  # noqa: S105
)


def values(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> list[str]:
    """All values of a header. name: in small letters."""
    return [value.decode("latin-1") for key, value in headers if key == name]


def is_page(scope: Scope) -> bool:
    """Whether the request is for the web page itself, which needs no token."""
    path = scope["path"]
    is_entry = path in ("/", PAGE, PRINTED_BY_MLFLOW)
    return scope.get("method") in permissions.READING and (is_entry or path.startswith(f"{PAGE}/"))


def cookies(headers: Iterable[tuple[bytes, bytes]], name: str) -> list[str]:
    """All values of a cookie. One that can't be read spoils no other: every program of the host may set some."""
    pairs = (pair.partition("=") for text in values(headers, b"cookie") for pair in text.split(";"))
    return [value.strip().strip('"') for key, is_named, value in pairs if is_named and key.strip() == name]


def valid_session(headers: Iterable[tuple[bytes, bytes]], sessions: PageSessions) -> str:
    """The session whose cookie a request carries; "" = none that is valid, or several: another program set one."""
    valid = {value for value in cookies(headers, sessions.cookie) if sessions.is_valid(value)}
    return valid.pop() if len(valid) == 1 else ""
