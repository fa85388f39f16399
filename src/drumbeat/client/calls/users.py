"""The calls of `Client` that are about users."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from drumbeat.client.connection import Connection, part
from drumbeat.client.responses import view, views
from drumbeat.model.api.page import PageLinkView
from drumbeat.model.api.users import AuditLine, NewToken, QuotaView, TokenView, UsesView


class UserCalls:
    """A part of `Client`."""

    connection: Connection

    def tokens(self) -> list[TokenView]:
        """The users who have tokens, with their roles."""
        return views(TokenView, self.connection.call("GET", "/tokens"))

    def create_token(self, person: str, role: str = "contributor", expires: timedelta | None = None) -> NewToken:
        """Creates a user's token; the answer is the only place where it stands. expires: after so long; None = never.

        Raises SpecError, ForbiddenError; ConflictError when the user has one.
        """
        body = {"person": person, "role": role, "expires_s": expires.total_seconds() if expires else None}
        token = view(NewToken, self.connection.call("POST", "/tokens", json=body))
        return replace(token, link=self._page_url(token.link))

    def token_link(self, person: str) -> PageLinkView:
        """A link that signs a browser in once, as the user of a token. Raises NotFoundError, ForbiddenError."""
        link = view(PageLinkView, self.connection.call("POST", f"/tokens/{part(person)}/links"))
        return replace(link, path=self._page_url(link.path))

    def set_role(self, person: str, role: str) -> None:
        """Gives a user another role, at once. Raises NotFoundError, ForbiddenError."""
        self.connection.call("PUT", f"/tokens/{part(person)}/role", json={"role": role})

    def remove_token(self, person: str, token_id: str = "") -> None:
        """Removes a user's tokens, or the one with this id; jobs continue. Raises NotFoundError, ForbiddenError."""
        self.connection.call("DELETE", f"/tokens/{part(person)}", params={"id": token_id} if token_id else None)

    def end_own_token(self) -> None:
        """Removes the token by which this client calls."""
        self.connection.call("DELETE", "/token")

    def audit(self, since: datetime | None = None, limit: int = 10_000) -> list[AuditLine]:
        """The newest lines of the audit log, the oldest of them first. Raises ForbiddenError unless one is an owner."""
        params = {"limit": limit, **({"since": since.isoformat()} if since else {})}
        return views(AuditLine, self.connection.call("GET", "/audit", params=params))

    def _page_url(self, path: str) -> str:
        return f"{self.connection.line.url.rstrip('/')}{path}" if path else ""

    def quotas(self) -> list[QuotaView]:
        """Every quota, by kind and name."""
        return views(QuotaView, self.connection.call("GET", "/quotas"))

    def uses(self) -> UsesView:
        """What users and experiments use now, and what counts against users in fair share."""
        return view(UsesView, self.connection.call("GET", "/quotas/use"))

    def set_quota(
        self, kind: str, name: str, *, slots: int | None = None, gpus: int | None = None, waiting: int | None = None
    ) -> QuotaView:
        """Sets the limits of a `person` or an `experiment`, `*` = each without a quota of its own.

        Raises SpecError, ForbiddenError.
        """
        limits = {"slots": slots, "gpus": gpus, "waiting": waiting}
        return view(QuotaView, self.connection.call("PUT", f"/quotas/{kind}/{part(name)}", json=limits))

    def remove_quota(self, kind: str, name: str) -> None:
        """Removes a quota. Raises NotFoundError, ForbiddenError."""
        self.connection.call("DELETE", f"/quotas/{kind}/{part(name)}")

    def set_half_life(self, half_life: timedelta) -> None:
        """Sets after how long past use counts half. Raises RefusedError, ForbiddenError."""
        self.connection.call("PUT", "/quotas/half-life", json={"half_life_s": half_life.total_seconds()})
