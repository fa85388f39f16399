"""The part of the store with users: their tokens, sessions and quotas."""

from __future__ import annotations

from datetime import datetime

from drumbeat.core.scheduling.fair_share import PastUse
from drumbeat.core.scheduling.quotas import Quota
from drumbeat.model.principal import Role
from drumbeat.server.computes import usage_tables as usage
from drumbeat.server.database.leased_database import LeasedDatabase
from drumbeat.server.sign_in import tables as sign_in
from drumbeat.server.sign_in.provider_session import ProviderSession, ProviderUser
from drumbeat.server.users import tables as people
from drumbeat.server.users.user_token import UserToken


class UserStore(LeasedDatabase):
    """Keeps what is known of users."""

    def tokens(self) -> list[UserToken]:
        """Every token, by user."""
        with self._database.read() as connection:
            return people.all_tokens(connection)

    def token(self, digest: str) -> UserToken | None:
        """The token with this digest; None = there is none."""
        with self._database.read() as connection:
            return people.by_digest(connection, digest)

    def add_token(self, token: UserToken) -> None:
        """Keeps a token. Raises ConflictError when the user has one."""
        with self._write() as connection:
            people.add(connection, token)

    def remove_token(self, user: str, token_id: str = "") -> None:
        """Removes the tokens of a user, or the one with this id. Raises NotFoundError.

        Without an id, a user of the identity provider is forgotten, too.
        """
        with self._write() as connection:
            if token_id or not sign_in.forget_user(connection, user):
                people.remove(connection, user, token_id)
            else:
                people.remove_all(connection, user)

    def remove_session(self, session: str) -> int:
        """Removes the tokens of a session at the identity provider, and returns how many there were."""
        with self._write() as connection:
            sign_in.remove_session(connection, session)
            return people.remove_session(connection, session)

    def remove_expired_tokens(self, before: datetime) -> int:
        """Removes the tokens from signing in that had expired then, and returns how many there were."""
        with self._write() as connection:
            return people.remove_expired(connection, before)

    def set_role(self, user: str, role: Role) -> None:
        """Gives all tokens of a user another role. Raises NotFoundError."""
        with self._write() as connection:
            people.set_role(connection, user, role)
            sign_in.set_role(connection, user, role)

    def note_token_use(self, digest: str, at: datetime) -> None:
        """Writes when a token was last used."""
        with self._write() as connection:
            people.note_use(connection, digest, at)

    def provider_user(self, issuer: str, subject: str) -> ProviderUser | None:
        """A user of the identity provider, by its id; None = there is none."""
        with self._database.read() as connection:
            return sign_in.user(connection, issuer, subject)

    def provider_user_named(self, name: str) -> ProviderUser | None:
        """A user of the identity provider, by the name here; None = there is none."""
        with self._database.read() as connection:
            return sign_in.user_named(connection, name)

    def put_provider_user(self, user: ProviderUser) -> None:
        """Keeps a user of the identity provider, and gives the role to their tokens from signing in."""
        with self._write() as connection:
            sign_in.put_user(connection, user)

    def provider_sessions(self) -> list[ProviderSession]:
        """All sessions at the identity provider, those that were checked longest ago first."""
        with self._database.read() as connection:
            return sign_in.sessions(connection)

    def put_provider_session(self, session: ProviderSession) -> None:
        """Keeps a session at the identity provider, in place of the one of its name."""
        with self._write() as connection:
            sign_in.put_session(connection, session)

    def quotas(self) -> list[Quota]:
        """Every quota, by kind and name."""
        with self._database.read() as connection:
            return usage.all_quotas(connection)

    def set_quota(self, quota: Quota) -> None:
        """Keeps a quota, in place of the one of its kind and name; one without limits is removed."""
        with self._write() as connection:
            usage.set_quota(connection, quota)

    def past_use(self) -> list[PastUse]:
        """What each user had used when their slots were last given back, by user."""
        with self._database.read() as connection:
            return usage.all_past_use(connection)
