"""Signs users in by the identity provider: admits them, makes their tokens, and ends what the provider ended."""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from drumbeat.model.errors import ForbiddenError, StorageError, UnauthorizedError
from drumbeat.model.principal import Role
from drumbeat.model.sign_in_codes import challenge_of
from drumbeat.server.access import audit
from drumbeat.server.database import SqlStore
from drumbeat.server.resources.sealing import Seal
from drumbeat.server.sign_in.admission import role_of_claims, user_name
from drumbeat.server.sign_in.provider_answer import LogoutToken, ProviderAnswer
from drumbeat.server.sign_in.provider_session import ProviderSession, ProviderUser
from drumbeat.server.users.tokens import Tokens
from drumbeat.server.users.user_token import TokenKind, UserToken

if TYPE_CHECKING:
    from drumbeat.server.sign_in.provider import Provider

log = logging.getLogger(__name__)

MAX_LABEL = 100
MAX_SIGN_INS = 50
"""Valid sign-ins of a user; the one that ends first makes room."""
CODE_LIFE = timedelta(minutes=2)
MAX_CODES = 200
AGAIN = "Sign in again."


@dataclass(frozen=True)
class SignedIn:
    """A user who has just signed in. text: the token, which only its user learns."""

    text: str
    token: UserToken


@dataclass(frozen=True)
class _Code:
    answer: ProviderAnswer
    challenge: str
    ends: datetime


class SignIn:
    """Sign-in by one provider. Thread-safe; its methods may wait for the store.

    key: the server's. home_user: the user of the home's token, whose name no other user may have. on_change: called
    when tokens have changed.
    """

    def __init__(self, provider: Provider, store: SqlStore, tokens: Tokens, key: bytes, home_user: str) -> None:
        self.provider, self.settings, self._clock = provider, provider.settings, provider.clock
        self._store, self._tokens, self._seal, self._home_user = store, tokens, Seal(key, "session"), home_user
        self._codes: dict[str, _Code] = {}
        self._lock = threading.Lock()
        self.on_change: Callable[[], None] = _nothing

    # --- users ----------------------------------------------------------------------------------------------------
    def finish(self, answer: ProviderAnswer, kind: TokenKind, label: str, *, by_device: bool = False) -> SignedIn:
        """Makes the token of a user who has signed in at the provider. Raises ForbiddenError, which is noted."""
        way = f"/{kind}"
        try:
            user = self._admit(answer)
        except ForbiddenError:
            audit.note_sign_in(self._shown_name(answer), "", way, 403)
            raise
        session = secrets.token_urlsafe(16)
        now = self._clock.now()
        sealed = self._seal.close(session, {"refresh_token": answer.refresh_token} if answer.refresh_token else {})
        self._make_room(user.name, now)
        issuer = self.settings.issuer
        self._store.put_provider_session(
            ProviderSession(session, issuer, answer.subject, answer.sid, sealed, by_device, now)
        )
        life = self.settings.life if answer.refresh_token else self.settings.unchecked_life
        text, token = self._tokens.new(
            user.name, Role(user.role), kind, life, label=printable_label(label), session=session
        )
        audit.note_sign_in(user.name, user.role, way, 200)
        self.on_change()
        return SignedIn(text, token)

    def _admit(self, answer: ProviderAnswer) -> ProviderUser:
        """Returns the user, in the role of their groups. Raises ForbiddenError, and ends what a refused one has."""
        current = self._store.provider_user(self.settings.issuer, answer.subject)
        name = current.name if current else user_name(answer.claims, self.settings)
        try:
            role = role_of_claims(answer.claims, self.settings, name)
        except ForbiddenError:
            if current:
                self._refuse(current)
            raise
        if current is None:
            self._require_free(name)
        user = ProviderUser(self.settings.issuer, answer.subject, name, role)
        if user != current:
            self._store.put_provider_user(user)
            self.on_change()
        return user

    def _require_free(self, name: str) -> None:
        """Raises ForbiddenError if the name is another user's: at many providers, users choose their names."""
        other = self._store.provider_user_named(name)
        has_token = any(one.user == name and one.kind is TokenKind.TOKEN for one in self._tokens.all())
        if name != self._home_user and other is None and not has_token:
            return
        whose = "another user of the provider has it" if other else "an owner of this server made a token for it"
        what = f"{name} can't sign in: {whose}"
        fix = f"If it is the same person, ask {self.settings.ask}: drumbeat token remove {name}. Jobs stay {name}'s."
        raise ForbiddenError(what, fix=fix)

    def _refuse(self, user: ProviderUser) -> None:
        """Ends all sign-ins of a user whom the provider's groups admit no more. Their schedules stop."""
        self._store.put_provider_user(replace(user, role=""))
        for one in self._sessions_of(user.subject):
            self.end(one, user.name, "/refused")
        self.on_change()

    def _shown_name(self, answer: ProviderAnswer) -> str:
        given = answer.claims.get(self.settings.name_claim)
        return given if isinstance(given, str) and given else answer.subject

    def _make_room(self, name: str, now: datetime) -> None:
        own = [one for one in self._tokens.all() if one.user == name and one.session and one.is_valid(now)]
        for one in sorted(own, key=lambda one: one.expires_at or now)[: max(0, len(own) - MAX_SIGN_INS + 1)]:
            self._tokens.end_session(one.session)

    # --- ends -------------------------------------------------------------------------------------------------------
    def sessions(self) -> list[ProviderSession]:
        """Returns the sessions at this provider, those that were checked longest ago first."""
        return [one for one in self._store.provider_sessions() if one.issuer == self.settings.issuer]

    def _sessions_of(self, subject: str) -> list[ProviderSession]:
        return [one for one in self.sessions() if one.subject == subject]

    def end(self, session: ProviderSession, name: str, way: str) -> None:
        """Ends a session: its tokens aren't accepted any more."""
        if self._tokens.end_session(session.session):
            audit.note_sign_in(name, "", way, 401)
            self.on_change()

    def log_out(self, given: LogoutToken) -> int:
        """Ends what the provider says has ended, and returns how many sessions that were."""
        ended = [
            one
            for one in self.sessions()
            if (one.sid == given.sid if given.sid else True) and (not given.subject or one.subject == given.subject)
        ]
        for one in ended:
            self.end(one, self.name_of(one), "/ended")
        return len(ended)

    def name_of(self, session: ProviderSession) -> str:
        """Returns the name of a session's user."""
        user = self._store.provider_user(session.issuer, session.subject)
        return user.name if user else session.subject

    # --- checks -----------------------------------------------------------------------------------------------------
    def check(self, session: ProviderSession) -> None:
        """Asks the provider whether a session goes on, and in which groups its user is.

        Raises UnauthorizedError, ForbiddenError, when it has ended; UnreachableError, RefusedError when that isn't
        current.
        """
        try:
            token = str(self._seal.open(session.session, session.sealed)["refresh_token"])
        except StorageError as error:
            raise UnauthorizedError(str(error), fix=AGAIN) from None

        def keep(newer: str) -> None:
            sealed = self._seal.close(session.session, {"refresh_token": newer})
            self._store.put_provider_session(replace(session, sealed=sealed, checked_at=self._clock.now()))

        answer = self.provider.refresh(token, session.subject, by_device=session.by_device, keep=keep)
        if answer.claims.keys() - {"sub"}:
            self._admit(answer)

    def has_valid_token(self, session: ProviderSession) -> bool:
        """Whether a session has a token that is still accepted."""
        now = self._clock.now()
        return any(one.session == session.session and one.is_valid(now) for one in self._tokens.all())

    def forget(self, session: ProviderSession) -> None:
        """Removes a session without valid tokens."""
        self._tokens.end_session(session.session)

    # --- codes for `drumbeat login` ---------------------------------------------------------------------------------
    def new_code(self, answer: ProviderAnswer, challenge: str) -> str:
        """Returns a code for the `drumbeat login` that knows the secret of a challenge."""
        code, now = secrets.token_urlsafe(32), self._clock.now()
        with self._lock:
            self._codes = {key: one for key, one in self._codes.items() if now < one.ends}
            for oldest in list(self._codes)[: max(0, len(self._codes) - MAX_CODES + 1)]:
                del self._codes[oldest]
            self._codes[code] = _Code(answer, challenge, now + CODE_LIFE)
        return code

    def redeem_code(self, code: str, verifier: str, label: str) -> SignedIn:
        """Makes the token of a `drumbeat login`, once. Raises UnauthorizedError, ForbiddenError."""
        with self._lock:
            held = self._codes.pop(code, None)
        is_right = held is not None and secrets.compare_digest(held.challenge, challenge_of(verifier))
        if held is None or not is_right or self._clock.now() >= held.ends:
            raise UnauthorizedError("the code of the sign-in was used, is wrong, or has expired", fix=AGAIN)
        return self.finish(held.answer, TokenKind.LOGIN, label)


def printable_label(text: str) -> str:
    """Returns what is shown of a machine or a browser."""
    return "".join(one for one in text if one.isprintable())[:MAX_LABEL]


def _nothing() -> None:
    """Does nothing, before the app is made."""
