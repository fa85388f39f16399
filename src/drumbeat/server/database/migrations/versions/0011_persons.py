"""The person of each job, and the tokens of persons."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Adds a column with its index, and a table; jobs submitted before have no person."""
    op.add_column("jobs", sa.Column("person", sa.Text, nullable=False, server_default=""))
    op.create_index("ix_jobs_person_number", "jobs", ["person", "number"])
    op.create_table(
        "tokens",
        sa.Column("person", sa.Text, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("person", name="pk_tokens"),
        sa.UniqueConstraint("digest", name="uq_tokens_digest"),
    )
