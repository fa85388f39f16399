"""The `People` port in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import RLock

from drumbeat.core.fair_share import PastUse
from drumbeat.core.quotas import Quota, QuotaKind
from drumbeat.dialect.reading.error_messages import nearest
from drumbeat.ports import PersonToken
from drumbeat.protocol.errors import ConflictError, NotFoundError


@dataclass
class PeopleShelf:
    """What several servers see as one database."""

    tokens: dict[str, PersonToken] = field(default_factory=dict[str, PersonToken])
    """By person."""
    quotas: dict[tuple[QuotaKind, str], Quota] = field(default_factory=dict[tuple[QuotaKind, str], Quota])
    past_use: dict[str, PastUse] = field(default_factory=dict[str, PastUse])
    """By person."""


class MemoryPeople:
    """The `People` port over a shelf."""

    def __init__(self, shelf: PeopleShelf, lock: RLock) -> None:
        self._people, self._people_lock = shelf, lock

    def tokens(self) -> list[PersonToken]:
        with self._people_lock:
            return sorted(self._people.tokens.values(), key=lambda one: one.person)

    def token(self, digest: str) -> PersonToken | None:
        return next((one for one in self.tokens() if one.digest == digest), None)

    def add_token(self, token: PersonToken) -> None:
        with self._people_lock:
            if token.person in self._people.tokens:
                raise ConflictError(f"{token.person} has a token already")
            self._people.tokens[token.person] = token

    def remove_token(self, person: str) -> None:
        with self._people_lock:
            if self._people.tokens.pop(person, None) is None:
                raise NotFoundError(f"{person} has no token", fix=nearest(person, self._people.tokens))

    def quotas(self) -> list[Quota]:
        with self._people_lock:
            return [self._people.quotas[key] for key in sorted(self._people.quotas)]

    def set_quota(self, quota: Quota) -> None:
        with self._people_lock:
            self._people.quotas[quota.kind, quota.name] = quota
            if quota.is_empty:
                del self._people.quotas[quota.kind, quota.name]

    def past_use(self) -> list[PastUse]:
        with self._people_lock:
            return sorted(self._people.past_use.values(), key=lambda one: one.person)
