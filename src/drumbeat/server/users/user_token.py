"""The users: their tokens, their quotas, and what they use."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from drumbeat.model.principal import Principal, Role


@dataclass(frozen=True)
class UserToken:
    """A user's token as it is kept."""

    user: str
    role: Role
    digest: str
    """SHA-256 of the token, which itself is not kept."""
    created_at: datetime

    @property
    def principal(self) -> Principal:
        """The user and the role."""
        return Principal(self.user, self.role)


HALF_LIFE_SETTING = "half_life_s"
"""The setting (`SqlStore.setting`) with the half-life of past use; "" = the default."""
