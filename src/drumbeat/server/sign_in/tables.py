"""The users and sessions of the identity provider in their tables."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from drumbeat.model.principal import Role
from drumbeat.server.database.schema import access_tokens, provider_sessions, provider_users
from drumbeat.server.sign_in.provider_session import ProviderSession, ProviderUser
from drumbeat.server.users.user_token import TokenKind

SIGNED_IN = (TokenKind.LOGIN.value, TokenKind.PAGE.value)


def user(connection: Connection, issuer: str, subject: str) -> ProviderUser | None:
    """Returns a user by the provider's id."""
    where = provider_users.c.issuer == issuer, provider_users.c.subject == subject
    row = connection.execute(select(provider_users).where(*where)).first()
    return _user(row) if row else None


def user_named(connection: Connection, person: str) -> ProviderUser | None:
    """Returns a user by the name here."""
    row = connection.execute(select(provider_users).where(provider_users.c.person == person)).first()
    return _user(row) if row else None


def put_user(connection: Connection, given: ProviderUser) -> None:
    """Writes a user, and gives the role to the tokens that signing in made."""
    where = provider_users.c.issuer == given.issuer, provider_users.c.subject == given.subject
    if connection.execute(update(provider_users).where(*where).values(role=given.role)).rowcount == 0:
        values = {"issuer": given.issuer, "subject": given.subject, "person": given.name, "role": given.role}
        connection.execute(insert(provider_users).values(values))
    if given.role:
        own = access_tokens.c.person == given.name, access_tokens.c.kind.in_(SIGNED_IN)
        connection.execute(update(access_tokens).where(*own).values(role=given.role))


def sessions(connection: Connection) -> list[ProviderSession]:
    """Returns all sessions, those that were checked longest ago first."""
    order = provider_sessions.c.checked_at, provider_sessions.c.session
    return [_session(row) for row in connection.execute(select(provider_sessions).order_by(*order))]


def put_session(connection: Connection, given: ProviderSession) -> None:
    """Writes a session, in place of the one of its name."""
    connection.execute(delete(provider_sessions).where(provider_sessions.c.session == given.session))
    connection.execute(
        insert(provider_sessions).values(
            session=given.session, issuer=given.issuer, subject=given.subject, sid=given.sid,
            refresh_token=given.sealed, by_device=given.by_device, checked_at=given.checked_at,
        )
    )  # fmt: skip


def remove_session(connection: Connection, session: str) -> None:
    """Removes a session; nothing, if there is none."""
    connection.execute(delete(provider_sessions).where(provider_sessions.c.session == session))


def set_role(connection: Connection, person: str, role: Role) -> None:
    """Gives a user another role, until the next sign-in or check; nothing, if the provider has no such user."""
    connection.execute(update(provider_users).where(provider_users.c.person == person).values(role=role.value))


def forget_user(connection: Connection, person: str) -> bool:
    """Removes a user and the sessions, and returns whether there was one. The next sign-in makes the user again."""
    current = user_named(connection, person)
    if current is None:
        return False
    own = provider_sessions.c.issuer == current.issuer, provider_sessions.c.subject == current.subject
    connection.execute(delete(provider_sessions).where(*own))
    connection.execute(delete(provider_users).where(provider_users.c.person == person))
    return True


def _user(row: Row[Any]) -> ProviderUser:
    return ProviderUser(row.issuer, row.subject, row.person, row.role)


def _session(row: Row[Any]) -> ProviderSession:
    return ProviderSession(
        row.session, row.issuer, row.subject, row.sid, bytes(row.refresh_token), row.by_device, row.checked_at
    )
