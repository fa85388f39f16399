"""Admission of requests: checks host and origin of each, and finds the principal unless an agent sent it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from anyio import move_on_after, to_thread

from drumbeat.model.errors import DrumbeatError, ForbiddenError, NotFoundError, UnauthorizedError
from drumbeat.model.principal import Principal, Role
from drumbeat.server import errors
from drumbeat.server.access import audit, permissions
from drumbeat.server.access.callers import Callers
from drumbeat.server.access.page_sessions import PageSessions

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
AGENTS = "/agent/v1/"
"""Below this path, a node's own secret replaces the token."""
AGENT_CALL = re.compile(r"/agent/v1/([^/]+)/(\d{1,9})/(\d{1,9})/.+", re.ASCII | re.DOTALL)
"""The path of an agent's request: job, attempt, node and the rest."""
CheckSecret = Callable[[str, int, int, str], None]
"""Raises UnauthorizedError unless a secret is that of this node of this job's attempt; doesn't block."""
LAST = {"Connection": "close"}
"""Header of a response after which the rest of the request is not read."""
SHORT_BODY = 16 << 10
"""Bytes that are still read of a refused request."""
SHORT_BODY_S = 1.0
PAGE = "/ui"
"""Path of the web page's files. They need no token, because they contain no data."""
PRINTED_BY_MLFLOW = "/mlflow/"
"""The path that MLflow's clients print at the end of a run, before a `#`; it leads to the web page."""
ACTION_HEADER = b"drumbeat-action"
"""The header in which the page sends its session's action token."""
SIGN_IN = f"{PAGE}/sign-in"
"""Path below which users sign in by an identity provider, without a token yet."""
SIGN_IN_POSTS = (f"{SIGN_IN}/device", f"{SIGN_IN}/token", f"{SIGN_IN}/back-channel")
"""What `drumbeat login` and the provider send there. Each carries a secret or a signature of its own."""
HEALTH = ("/healthz", "/readyz")
"""Health checks need no token and accept any `Host`; they say only whether the server is healthy."""


def allowed_hosts(port: int, names: Iterable[str] = ()) -> frozenset[str]:
    """Returns the accepted `Host` headers: loopback with the port, and the configured names with and without it."""
    bare = [name.lower() for name in names]
    return frozenset([f"{name}:{port}" for name in (*LOOPBACK, *bare)] + bare)


def bearer(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """The token in the `Authorization` header; "" = none."""
    given = values(headers, b"authorization")
    scheme, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
    return token.strip() if scheme.lower() == "bearer" else ""


RequireOwn = Callable[[Principal, str], None]
"""Raises ForbiddenError unless a principal may change a job; may block."""
UserOf = Callable[[str], str]
"""Returns whose a job is, "" = of no known user; may block."""


def require_secret(scope: Scope, check: CheckSecret) -> None:
    """Refuses an agent's request without its node's secret, before its body is read.

    Whether the attempt is still current is checked later, in `nodes/`. Raises NotFoundError, UnauthorizedError.
    """
    call = AGENT_CALL.fullmatch(scope["path"])
    if call is None:
        raise NotFoundError("there is nothing at this address", where=scope["path"][:200])
    check(call[1], int(call[2]), int(call[3]), bearer(scope["headers"]))


async def refuse(response: Response, scope: Scope, receive: Receive, send: Send) -> None:
    """Sends the response to a refused request, whose connection is closed afterwards (`LAST`).

    A short body is read first: a client that is still sending when its connection is closed may never see the response
    (RFC 9112 section 9.6). A longer one is not read.
    """
    lengths = values(scope["headers"], b"content-length")
    if len(lengths) == 1 and lengths[0].isdecimal() and int(lengths[0]) <= SHORT_BODY:
        with move_on_after(SHORT_BODY_S):
            while (await receive()).get("more_body"):
                pass
    await response(scope, receive, send)


class Guard:
    """ASGI middleware that admits or refuses requests. It doesn't buffer their bodies.

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
        user_of: UserOf | None = None,
    ) -> None:
        self.app, self.callers, self.hosts, self.check, self.sessions = app, callers, hosts, check, sessions
        self.require_own, self.user_of = require_own, user_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        try:
            principal = await self.principal(scope)
        except DrumbeatError as error:
            if scope["type"] == "http":
                await refuse(self.refused(scope, error), scope, receive, send)
            else:
                await send({"type": "websocket.close", "code": 1008})
            return
        if principal is not None:
            scope.setdefault("state", {})["principal"] = principal
            send = audit.noted(send, scope, principal)
        await self.app(scope, receive, send)

    def refused(self, _scope: Scope, error: DrumbeatError) -> Response:
        """Returns the response to a refused request."""
        return errors.response(error, headers=LAST)

    async def principal(self, scope: Scope) -> Principal | None:
        """Returns the principal of a request; None for agents, health checks and the web page's files.

        Raises UnauthorizedError, ForbiddenError, NotFoundError; AwayError while the database is unavailable.
        """
        if scope["path"] in HEALTH and scope.get("method") in permissions.READING:
            return None
        if refusal := self.refusal_of_origin(scope):
            raise refusal
        if scope["path"].startswith(AGENTS):
            require_secret(scope, self.check)
            return None
        if is_page(scope) or (scope.get("method") == "POST" and scope["path"] in SIGN_IN_POSTS):
            return None
        return await self.admitted(scope, await self.caller(scope))

    async def admitted(self, scope: Scope, principal: Principal) -> Principal:
        """Returns the principal. Raises ForbiddenError, and notes it, if it may not send the request."""
        method, path = scope.get("method", "CONNECT"), scope["path"]
        job = permissions.job_changed(method, path)
        if job and self.user_of:
            user = await to_thread.run_sync(self.user_of, job, abandon_on_cancel=True)
            if user != principal.user:
                scope.setdefault("state", {})[audit.OF] = user
        try:
            if refusal := permissions.refusal(principal, method, path):
                raise refusal
            if job and principal.role is not Role.OWNER and self.require_own:
                await to_thread.run_sync(self.require_own, principal, job, abandon_on_cancel=True)
        except ForbiddenError as refusal:
            audit.note(scope, principal, errors.http_status(refusal))
            raise
        return principal

    async def caller(self, scope: Scope) -> Principal:
        """Returns who sends a request, by its token or session. Raises UnauthorizedError, ForbiddenError."""
        given, session = bearer(scope["headers"]), ""
        if not given and (session := self.session(scope)) and (refusal := self._refusal_of_session(scope, session)):
            raise refusal
        if not given and not session:
            raise UnauthorizedError("a token is needed", fix=TOKEN)
        if session and self.sessions:
            principal = await self.callers.for_digest(self.sessions.token_digest(session))
        else:
            principal = await self.callers.for_token(given)
        if principal is None:
            raise UnauthorizedError("that token is wrong, has expired, or was removed", fix=TOKEN)
        return principal

    def refusal_of_origin(self, scope: Scope) -> DrumbeatError | None:
        """Returns why a request to this host or from this origin is refused; None = it is admitted."""
        hosts, origins = values(scope["headers"], b"host"), values(scope["headers"], b"origin")
        # Browsers can't call the Unix socket in the home: `server` is its path and None (ASGI).
        _, port = scope.get("server") or ("", 0)
        if port is not None and (len(hosts) != 1 or hosts[0].lower() not in self.hosts):
            named = hosts[0][:100] if hosts else "none"
            return ForbiddenError("this server doesn't go by that host name", where=f"Host: {named}", fix=ALLOW_HOST)
        if any(not self.is_own(origin) for origin in origins):
            return ForbiddenError("a page of another origin may not call this server", where=f"Origin: {origins[0]}")
        return None

    def session(self, scope: Scope) -> str:
        """Returns the web page's session from the request's cookie; "" = there is no valid one."""
        return valid_session(scope["headers"], self.sessions) if self.sessions else ""

    def _refusal_of_session(self, scope: Scope, session: str) -> DrumbeatError | None:
        """Returns why a request of the web page is refused; None = it is admitted.

        A browser sends the cookie with every request, whichever page makes it, and `SameSite` admits pages of this
        machine's other ports. Therefore the browser's headers about the requesting page are checked, and every
        request that changes something needs the action token.
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
        """Whether an origin is this server."""
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        return parts.scheme in ("http", "https") and not parts.path and parts.netloc.lower() in self.hosts


ALLOW_HOST = "To allow this name, start the server with --allow-host NAME."
RELOAD = "Reload the page, or open it again: drumbeat ui"
TOKEN = (
    "Send `Authorization: Bearer …` with your token, or with what is in the file `token` in the server's home folder."  # noqa: S105
)


def values(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> list[str]:
    """Returns all values of a header. name: in lower case."""
    return [value.decode("latin-1") for key, value in headers if key == name]


def is_page(scope: Scope) -> bool:
    """Whether the request is for the web page's files, which need no token."""
    path = scope["path"]
    is_entry = path in ("/", PAGE, PRINTED_BY_MLFLOW)
    return scope.get("method") in permissions.READING and (is_entry or path.startswith(f"{PAGE}/"))


def cookies(headers: Iterable[tuple[bytes, bytes]], name: str) -> list[str]:
    """Returns all values of a cookie. Malformed cookies are skipped, because any program of the host may set some."""
    pairs = (pair.partition("=") for text in values(headers, b"cookie") for pair in text.split(";"))
    return [value.strip().strip('"') for key, is_named, value in pairs if is_named and key.strip() == name]


def valid_session(headers: Iterable[tuple[bytes, bytes]], sessions: PageSessions) -> str:
    """Returns the session from a request's cookie; "" = there is none, or several (another program has set one)."""
    valid = {value for value in cookies(headers, sessions.cookie) if sessions.is_valid(value)}
    return valid.pop() if len(valid) == 1 else ""
