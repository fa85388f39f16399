"""Authorizes requests to a service, by a cookie of this port from a one-time link, or by a token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from anyio import to_thread

from drumbeat.model.errors import DrumbeatError, ForbiddenError, UnauthorizedError
from drumbeat.model.principal import Principal, Role
from drumbeat.server.access.callers import Callers
from drumbeat.server.access.page_sessions import PageSessions
from drumbeat.server.access.request_guard import bearer, valid_session
from drumbeat.server.services.headers import Header, values

OPEN = "/drumbeat-open/"
"""The path of a port's one-time links."""
SITES = (b"same-origin", b"none")


class ServiceKey(NamedTuple):
    """A service on one node of an attempt of a job. Its text is the same for all attempts."""

    job: str
    service: str
    node: int
    attempt: int

    def __str__(self) -> str:
        return f"{self.job}/{self.service}/{self.node}"


@dataclass(frozen=True)
class ServiceAdmission:
    """The caller of an admitted request."""

    principal: Principal
    digest: str
    """The digest of the principal's token, "" = the home's."""
    has_own_token: bool
    """Whether the request's `Authorization` header is drumbeat's."""


class ServiceAuthorizer:
    """Checks every request to one port."""

    def __init__(
        self,
        sessions: PageSessions,
        callers: Callers,
        hosts: frozenset[str],
        require_own: Callable[[Principal], None],
        *,
        has_tls: bool = False,
    ) -> None:
        """hosts: accepted `Host` headers, with this port. require_own: raises ForbiddenError for a user who may not
        change the job; may block. has_tls: whether the port has TLS.
        """
        self.has_tls = has_tls
        self.sessions, self._callers, self._hosts, self._require_own = sessions, callers, hosts, require_own

    def origin(self, headers: Sequence[Header]) -> bytes:
        """Returns the origin of the port under the request's host. Raises ForbiddenError."""
        hosts = values(headers, b"host")
        if len(hosts) != 1 or hosts[0].decode("latin-1").lower() not in self._hosts:
            raise ForbiddenError("this server doesn't go by that host name")
        return (b"https://" if self.has_tls else b"http://") + hosts[0]

    async def authorize(self, headers: Sequence[Header]) -> ServiceAdmission:
        """Authorizes a request. Raises UnauthorizedError, ForbiddenError; AwayError while the database is away."""
        if refusal := self._refusal_of_site(headers):
            raise refusal
        small = [(name.lower(), value) for name, value in headers]
        given = bearer(small)
        owner = await self._callers.for_token(given) if given else None
        session = valid_session(small, self.sessions)
        principal, digest = owner, self._callers.token_digest(given)
        if principal is None and session:
            digest = self.sessions.token_digest(session)
            principal = await self._callers.for_digest(digest)
        if principal is None:
            raise UnauthorizedError("this service needs a link", fix="Run: drumbeat open JOB SERVICE")
        if principal.role is Role.READER:
            raise ForbiddenError(f"{principal.user} is a reader here, and readers can't use services")
        if principal.role is not Role.OWNER:
            await to_thread.run_sync(self._require_own, principal, abandon_on_cancel=True)
        return ServiceAdmission(principal, digest, owner is not None)

    def _refusal_of_site(self, headers: Sequence[Header]) -> DrumbeatError | None:
        """Returns why the requesting page is refused. Other ports are other origins with the same cookies."""
        origins, own = values(headers, b"origin"), self.origin(headers)
        if any(origin != own for origin in origins) or any(
            site not in SITES for site in values(headers, b"sec-fetch-site")
        ):
            return ForbiddenError("a page of another origin may not use this service")
        return None
