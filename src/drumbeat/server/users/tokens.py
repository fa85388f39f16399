"""The tokens of users: created once, kept as digests, removed."""

from __future__ import annotations

import hashlib
import logging
import secrets

from drumbeat.model.errors import SpecError
from drumbeat.model.principal import MAX_USER_NAME, USER_NAME, Principal, Role
from drumbeat.ports.clock import Clock
from drumbeat.server.database import SqlStore
from drumbeat.server.users.user_token import UserToken

log = logging.getLogger(__name__)

TOKEN_BYTES = 32


def token_digest(token: str) -> str:
    """Returns the digest that is stored of a token. Tokens are long and random, so no slow hash is needed."""
    return hashlib.sha256(token.encode()).hexdigest()


class Tokens:
    """Manages tokens. Thread-safe."""

    def __init__(self, store: SqlStore, clock: Clock) -> None:
        self._store, self._clock = store, clock

    def all(self) -> list[UserToken]:
        """Every token, by user."""
        return self._store.tokens()

    def create(self, user: str, role: Role) -> str:
        """Returns a new token, which is shown only now. Raises SpecError, and ConflictError when the user has one."""
        require_user_name(user)
        token = secrets.token_urlsafe(TOKEN_BYTES)
        self._store.add_token(UserToken(user, role, token_digest(token), self._clock.now()))
        log.info("%s has a token, as %s", user, role)
        return token

    def remove(self, user: str) -> None:
        """Removes the token of a user; their jobs continue. Raises NotFoundError."""
        self._store.remove_token(user)
        log.info("the token of %s is removed", user)

    def principal(self, digest: str) -> Principal | None:
        """Returns whose token has this digest; None = no user has it."""
        token = self._store.token(digest)
        return token.principal if token else None

    def role_of(self, user: str) -> Role | None:
        """Returns the role that a user has now, the highest of their tokens; None = they have no token."""
        roles = {one.role for one in self.all() if one.user == user}
        return next((role for role in Role if role in roles), None)


def require_user_name(name: str) -> None:
    """Raises SpecError unless this may be the name of a user."""
    if not USER_NAME.fullmatch(name):
        what = f"{name[: MAX_USER_NAME + 1]!r} can't be the name of a user"
        fix = f"Use at most {MAX_USER_NAME} letters, digits and `_ . @ + -`, such as ada or ada@example.org."
        raise SpecError(what, where="person", fix=fix)
