"""The persons: their tokens, their quotas, and what they use."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from drumbeat.core.fair_share import HeldSlots, PastUse
from drumbeat.core.quotas import Quota
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


ALL_COMPUTES = "*"
"""The name under which `Store.booked` counts the bookings of all computes together, and the changes of quotas."""
HALF_LIFE_SETTING = "half_life_s"
"""The setting (`Store.setting`) with the half-life of past use; "" = the default."""


class People(Protocol):
    """Tokens, of which a person has at most one; quotas; and the use of slots by person."""

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

    def quotas(self) -> list[Quota]:
        """Every quota, by kind and name."""
        ...

    def set_quota(self, quota: Quota) -> None:
        """Keeps a quota, in place of the one of its kind and name; one without limits is removed."""
        ...

    def held_slots(self) -> list[HeldSlots]:
        """What each attempt holds, with its person and experiment, by compute, job and attempt."""
        ...

    def past_use(self) -> list[PastUse]:
        """What each person had used when their slots were last given back, by person."""
        ...
