"""The tokens of users in their table."""

from __future__ import annotations

from sqlalchemy import Connection, delete, insert, select

from drumbeat.jobfile.reading.error_messages import nearest
from drumbeat.model.errors import ConflictError, NotFoundError
from drumbeat.model.principal import Role
from drumbeat.server.database.schema import tokens
from drumbeat.server.users.user_token import UserToken


def all_tokens(connection: Connection) -> list[UserToken]:
    """Returns all tokens, by user."""
    rows = connection.execute(select(tokens)).all()
    kept = [UserToken(row.person, Role(row.role), row.digest, row.created_at) for row in rows]
    return sorted(kept, key=lambda one: one.user)


def by_digest(connection: Connection, digest: str) -> UserToken | None:
    """Returns the token with this digest."""
    row = connection.execute(select(tokens).where(tokens.c.digest == digest)).first()
    return UserToken(row.person, Role(row.role), row.digest, row.created_at) if row else None


def add(connection: Connection, token: UserToken) -> None:
    """Writes a token. Raises ConflictError."""
    if connection.execute(select(tokens.c.person).where(tokens.c.person == token.user)).first() is not None:
        raise has_token(token.user)
    row = {"person": token.user, "role": token.role.value, "digest": token.digest, "created_at": token.created_at}
    connection.execute(insert(tokens).values(row))


def remove(connection: Connection, user: str) -> None:
    """Removes the token of a user. Raises NotFoundError."""
    if connection.execute(delete(tokens).where(tokens.c.person == user)).rowcount == 0:
        raise no_token(user, list(connection.execute(select(tokens.c.person)).scalars()))


def has_token(user: str) -> ConflictError:
    """Returns the error for a second token of a user."""
    fix = f"Remove it first: drumbeat token remove {user}"
    return ConflictError(f"{user} has a token already", where="person", fix=fix)


def no_token(user: str, users: list[str]) -> NotFoundError:
    """Returns the error for a user without a token."""
    fix = nearest(user, users) or "List the users with tokens: drumbeat token list"
    return NotFoundError(f"{user} has no token", where="person", fix=fix)
