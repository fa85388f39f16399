"""Tokens that expire, several of one person, and when each was last used."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    """Moves the tokens to a table whose key is the digest; those from before don't expire."""
    moment = sa.DateTime(timezone=True)
    op.create_table(
        "access_tokens",
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("person", sa.Text, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("session", sa.Text, nullable=False),
        sa.Column("created_at", moment, nullable=False),
        sa.Column("expires_at", moment),
        sa.Column("used_at", moment),
        sa.PrimaryKeyConstraint("digest", name="pk_access_tokens"),
    )
    op.create_index("ix_access_tokens_person", "access_tokens", ["person"])
    op.execute(
        "INSERT INTO access_tokens (digest, person, role, kind, label, session, created_at) "
        "SELECT digest, person, role, 'token', '', '', created_at FROM tokens"
    )
    op.drop_table("tokens")
