"""The calls of `Client` that are about persons."""

from __future__ import annotations

from drumbeat.client.answers import view, views
from drumbeat.client.connection import Connection, part
from drumbeat.protocol.api.people import NewToken, TokenView


class PeopleCalls:
    """A part of `Client`."""

    connection: Connection

    def tokens(self) -> list[TokenView]:
        """The persons who have tokens, with their roles."""
        return views(TokenView, self.connection.call("GET", "/tokens"))

    def create_token(self, person: str, role: str = "contributor") -> NewToken:
        """Creates a person's token; the answer is the only place where it stands.

        Raises SpecError, ForbiddenError; ConflictError when the person has one.
        """
        return view(NewToken, self.connection.call("POST", "/tokens", json={"person": person, "role": role}))

    def remove_token(self, person: str) -> None:
        """Removes a person's token; their jobs go on. Raises NotFoundError, ForbiddenError."""
        self.connection.call("DELETE", f"/tokens/{part(person)}")
