"""Computes that people make."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Adds a table."""
    op.create_table(
        "computes",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("spec", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_computes"),
    )
