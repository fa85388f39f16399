"""The calls of `Client` that are about users."""

from __future__ import annotations

from datetime import timedelta

from drumbeat.client.connection import Connection, part
from drumbeat.client.responses import view, views
from drumbeat.model.api.users import NewToken, QuotaView, TokenView, UsesView


class UserCalls:
    """A part of `Client`."""

    connection: Connection

    def tokens(self) -> list[TokenView]:
        """The users who have tokens, with their roles."""
        return views(TokenView, self.connection.call("GET", "/tokens"))

    def create_token(self, person: str, role: str = "contributor") -> NewToken:
        """Creates a user's token; the answer is the only place where it stands.

        Raises SpecError, ForbiddenError; ConflictError when the user has one.
        """
        return view(NewToken, self.connection.call("POST", "/tokens", json={"person": person, "role": role}))

    def remove_token(self, person: str) -> None:
        """Removes a user's token; their jobs continue. Raises NotFoundError, ForbiddenError."""
        self.connection.call("DELETE", f"/tokens/{part(person)}")

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
