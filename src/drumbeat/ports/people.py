"""The persons who have tokens of their own."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from drumbeat.protocol.principal import Principal, Role


@dataclass(frozen=True)
class PersonToken:
    """A person's token as it is kept."""

    person: str
    role: Role
    digest: str
    """SHA-256 of the token, which itself is not kept."""
    created_at: datetime

    @property
    def principal(self) -> Principal:
        """The person and the role."""
        return Principal(self.person, self.role)


class People(Protocol):
    """The tokens of persons. A person has at most one."""

    def tokens(self) -> list[PersonToken]:
        """Every token, by person."""
        ...

    def token(self, digest: str) -> PersonToken | None:
        """The token with this digest; None = there is none."""
        ...

    def add_token(self, token: PersonToken) -> None:
        """Keeps a token. Raises ConflictError when the person has one."""
        ...

    def remove_token(self, person: str) -> None:
        """Removes the token of a person. Raises NotFoundError."""
        ...
