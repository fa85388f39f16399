"""The users: their tokens, their quotas, and what they use."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from drumbeat.model.principal import Principal, Role


class TokenKind(StrEnum):
    """How a user got a token."""

    TOKEN = "token"  # noqa: S105 - a word of the API
    """An owner created it. A user has at most one that is valid."""
    LOGIN = "login"
    """`drumbeat login`, by way of the identity provider."""
    PAGE = "page"
    """A browser signed in at the identity provider."""


@dataclass(frozen=True)
class UserToken:
    """A user's token as it is kept."""

    user: str
    role: Role
    digest: str
    """SHA-256 of the token, which itself is not kept."""
    created_at: datetime
    kind: TokenKind = TokenKind.TOKEN
    expires_at: datetime | None = None
    """From when on it isn't accepted; None = never."""
    used_at: datetime | None = None
    """When it was last used, within `USE_INTERVAL`; None = never."""
    label: str = ""
    """What the user sees of it in the list: the machine or the browser."""
    session: str = ""
    """The session at the identity provider, with whose end the token ends; "" = none."""

    @property
    def id(self) -> str:
        """What names the token in commands."""
        return self.digest[:ID_LENGTH]

    def is_valid(self, now: datetime) -> bool:
        """Whether it is still accepted."""
        return self.expires_at is None or now < self.expires_at

    @property
    def principal(self) -> Principal:
        """The user and the role."""
        return Principal(self.user, self.role)


ID_LENGTH = 10
"""Hex digits of a digest that name a token; nothing can be done with them."""
HALF_LIFE_SETTING = "half_life_s"
"""The setting (`SqlStore.setting`) with the half-life of past use; "" = the default."""
