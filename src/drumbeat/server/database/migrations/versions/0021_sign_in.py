"""Users who sign in at an identity provider, and their sessions there."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    """Creates the tables."""
    op.create_table(
        "provider_users",
        sa.Column("issuer", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("person", sa.Text, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("issuer", "subject", name="pk_provider_users"),
        sa.UniqueConstraint("person", name="uq_provider_users_person"),
    )
    op.create_table(
        "provider_sessions",
        sa.Column("session", sa.Text, nullable=False),
        sa.Column("issuer", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("sid", sa.Text, nullable=False),
        sa.Column("refresh_token", sa.LargeBinary, nullable=False),
        sa.Column("by_device", sa.Boolean, nullable=False),
        sa.Column("checked_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("session", name="pk_provider_sessions"),
    )
