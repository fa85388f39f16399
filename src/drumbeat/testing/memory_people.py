"""The `People` port in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import RLock

from drumbeat.dialect.reading.problems import nearest
from drumbeat.ports import PersonToken
from drumbeat.protocol.errors import ConflictError, NotFoundError


@dataclass
class PeopleShelf:
    """What several servers see as one database."""

    tokens: dict[str, PersonToken] = field(default_factory=dict[str, PersonToken])
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
