"""The tokens of users in their table."""

from __future__ import annotations

from dataclasses import fields
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from drumbeat.jobfile.reading.error_messages import nearest
from drumbeat.model.errors import ConflictError, NotFoundError
from drumbeat.model.principal import Role
from drumbeat.server.database.schema import access_tokens as table
from drumbeat.server.users.user_token import TokenKind, UserToken


def all_tokens(connection: Connection) -> list[UserToken]:
    """Returns all tokens, by user, the oldest first."""
    return sorted(
        map(_token, connection.execute(select(table))), key=lambda one: (one.user, one.created_at, one.digest)
    )


def by_digest(connection: Connection, digest: str) -> UserToken | None:
    """Returns the token with this digest."""
    row = connection.execute(select(table).where(table.c.digest == digest)).first()
    return _token(row) if row else None


def add(connection: Connection, token: UserToken) -> None:
    """Writes a token. Raises ConflictError for a second one of kind `token`, unless the first has expired."""
    if token.kind is TokenKind.TOKEN:
        own = table.c.person == token.user, table.c.kind == TokenKind.TOKEN.value
        expired = table.c.expires_at <= token.created_at
        connection.execute(delete(table).where(*own, expired))
        if connection.execute(select(table.c.digest).where(*own)).first() is not None:
            raise has_token(token.user)
    row = {one.name: getattr(token, one.name) for one in fields(token) if one.name != "user"}
    values = {**row, "person": token.user, "role": token.role.value, "kind": token.kind.value}
    connection.execute(insert(table).values(values))


def remove(connection: Connection, user: str, token_id: str = "") -> None:
    """Removes the tokens of a user, or the one with this id. Raises NotFoundError."""
    chosen = [table.c.person == user]
    if token_id:
        chosen.append(table.c.digest.startswith(token_id, autoescape=True))
    if connection.execute(delete(table).where(*chosen)).rowcount == 0:
        raise no_token(user, _users(connection), token_id)


def remove_all(connection: Connection, user: str) -> None:
    """Removes the tokens of a user, if there are any."""
    connection.execute(delete(table).where(table.c.person == user))


def remove_session(connection: Connection, session: str) -> int:
    """Removes the tokens of a session at the identity provider, and returns how many there were."""
    return connection.execute(delete(table).where(table.c.session == session)).rowcount


def remove_expired(connection: Connection, before: datetime) -> int:
    """Removes the tokens from signing in that had expired then, and returns how many there were.

    Those that an owner created stay listed, since their users are known until an owner removes them.
    """
    signed_in = table.c.kind != TokenKind.TOKEN.value
    return connection.execute(delete(table).where(signed_in, table.c.expires_at <= before)).rowcount


def set_role(connection: Connection, user: str, role: Role) -> None:
    """Gives all tokens of a user another role. Raises NotFoundError."""
    if connection.execute(update(table).where(table.c.person == user).values(role=role.value)).rowcount == 0:
        raise no_token(user, _users(connection))


def note_use(connection: Connection, digest: str, at: datetime) -> None:
    """Writes when a token was last used."""
    connection.execute(update(table).where(table.c.digest == digest).values(used_at=at))


def _token(row: Row[Any]) -> UserToken:
    return UserToken(
        row.person, Role(row.role), row.digest, row.created_at, TokenKind(row.kind), row.expires_at, row.used_at,
        row.label, row.session,
    )  # fmt: skip


def _users(connection: Connection) -> list[str]:
    return sorted(set(connection.execute(select(table.c.person)).scalars()))


def has_token(user: str) -> ConflictError:
    """Returns the error for a second token of a user."""
    fix = f"Remove it first: drumbeat token remove {user}. Another role: drumbeat token role {user} ROLE"
    return ConflictError(f"{user} has a token already", where="person", fix=fix)


def no_token(user: str, users: list[str], token_id: str = "") -> NotFoundError:
    """Returns the error for a user without a token."""
    if token_id and user in users:
        fix = "List the tokens with their ids: drumbeat token list"
        return NotFoundError(f"{user} has no token {token_id}", where="id", fix=fix)
    fix = nearest(user, users) or "List the users with tokens: drumbeat token list"
    return NotFoundError(f"{user} has no token", where="person", fix=fix)
