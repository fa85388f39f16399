"""The part of the seam to the server that is about persons."""

from __future__ import annotations

from typing import Protocol

from drumbeat.protocol.api.people import NewToken, TokenView


class PeopleServer(Protocol):
    """The calls of `drumbeat.Client` about persons that the terminal uses."""

    def tokens(self) -> list[TokenView]:
        """The persons who have tokens, with their roles."""
        ...

    def create_token(self, person: str, role: str = "contributor") -> NewToken:
        """Creates a person's token. Raises SpecError, ConflictError, ForbiddenError."""
        ...

    def remove_token(self, person: str) -> None:
        """Removes a person's token. Raises NotFoundError, ForbiddenError."""
        ...
