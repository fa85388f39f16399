"""Quotas, and the use of slots by person."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Adds a column and two tables; use before is unknown."""
    op.add_column("reservations", sa.Column("since", sa.DateTime(timezone=True)))
    op.create_table(
        "quotas",
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("slots", sa.Integer),
        sa.Column("gpus", sa.Integer),
        sa.Column("waiting", sa.Integer),
        sa.PrimaryKeyConstraint("kind", "name", name="pk_quotas"),
    )
    op.create_table(
        "past_use",
        sa.Column("person", sa.Text, nullable=False),
        sa.Column("amount", sa.Double, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("person", name="pk_past_use"),
    )
