"""The tokens of users: created once, kept as digests, expired or removed."""

from __future__ import annotations

import hashlib
import logging
import secrets
from contextlib import suppress
from datetime import timedelta

from drumbeat.model.errors import DrumbeatError, RefusedError, SpecError
from drumbeat.model.principal import MAX_USER_NAME, USER_NAME, Principal, Role
from drumbeat.ports.clock import Clock
from drumbeat.server.database import SqlStore
from drumbeat.server.users.tables import no_token
from drumbeat.server.users.user_token import TokenKind, UserToken

log = logging.getLogger(__name__)

TOKEN_BYTES = 32
USE_INTERVAL = timedelta(minutes=5)
"""How exactly the last use of a token is known: a write for each request would be too many."""
KEPT_EXPIRED = timedelta(days=7)
"""How long expired tokens from signing in stay in the list, so that their users learn why they are refused."""
MIN_LIFE, MAX_LIFE = timedelta(minutes=1), timedelta(days=3650)


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

    def of(self, user: str) -> UserToken:
        """Returns the token that an owner created for a user. Raises NotFoundError."""
        every = self.all()
        for one in every:
            if one.user == user and one.kind is TokenKind.TOKEN and one.is_valid(self._clock.now()):
                return one
        raise no_token(user, sorted({one.user for one in every}))

    def create(self, user: str, role: Role, life: timedelta | None = None) -> str:
        """Returns a new token, which is shown only now. Raises SpecError, and ConflictError when the user has one.

        life: None = it doesn't expire.
        """
        return self.new(user, role, TokenKind.TOKEN, life)[0]

    def new(
        self, user: str, role: Role, kind: TokenKind, life: timedelta | None, *, label: str = "", session: str = ""
    ) -> tuple[str, UserToken]:
        """Returns a new token, and what is kept of it. Raises SpecError, RefusedError, ConflictError."""
        require_user_name(user)
        if life is not None and not MIN_LIFE <= life <= MAX_LIFE:
            what = f"a token can't last {life.total_seconds():g} s"
            raise RefusedError(what, where="expires_s", fix="Give a time from a minute to ten years, such as 90d.")
        text, now = secrets.token_urlsafe(TOKEN_BYTES), self._clock.now()
        expires = None if life is None else now + life
        token = UserToken(user, role, token_digest(text), now, kind, expires, None, label, session)
        self._store.remove_expired_tokens(now - KEPT_EXPIRED)
        self._store.add_token(token)
        log.info("%s has a token (%s), as %s", user, kind, role)
        return text, token

    def remove(self, user: str, token_id: str = "") -> None:
        """Removes the tokens of a user, or the one with this id; their jobs continue. Raises NotFoundError."""
        self._store.remove_token(user, token_id)
        log.info("tokens of %s are removed%s", user, f": {token_id}" if token_id else "")

    def end_session(self, session: str) -> int:
        """Removes the tokens of a session that has ended at the identity provider. Returns how many there were."""
        return self._store.remove_session(session)

    def set_role(self, user: str, role: Role) -> None:
        """Gives all tokens of a user another role. Raises NotFoundError."""
        self._store.set_role(user, role)
        log.info("%s is %s now", user, role)

    def principal(self, digest: str) -> Principal | None:
        """Returns whose token has this digest, and notes its use; None = no user has it, or it has expired."""
        token, now = self._store.token(digest), self._clock.now()
        if token is None or not token.is_valid(now):
            return None
        if token.used_at is None or now - token.used_at >= USE_INTERVAL:
            with suppress(DrumbeatError):  # A server that stands by writes nothing; a full disk locks no user out.
                self._store.note_token_use(digest, now)
        return token.principal

    def role_of(self, user: str) -> Role | None:
        """Returns the role that a user has now, the highest of those given; None = the user isn't known.

        A user is known by a token, also an expired one, until an owner removes it, and by the identity provider until
        it refuses them: so a schedule goes on when the login with which it was made has expired.
        """
        roles = {str(one.role) for one in self.all() if one.user == user}
        at_provider = self._store.provider_user_named(user)
        if at_provider is not None:
            roles.add(at_provider.role)
        return next((role for role in Role if role in roles), None)


def require_user_name(name: str) -> None:
    """Raises SpecError unless this may be the name of a user."""
    if not USER_NAME.fullmatch(name):
        what = f"{name[: MAX_USER_NAME + 1]!r} can't be the name of a user"
        fix = f"Use at most {MAX_USER_NAME} letters, digits and `_ . @ + -`, such as ada or ada@example.org."
        raise SpecError(what, where="person", fix=fix)
