"""Parts of large jobs in rows of their own. Jobs of before stay one document until they are written next."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    """Adds the table of parts."""
    op.create_table(
        "job_parts",
        sa.Column("job", sa.Text, nullable=False),
        sa.Column("part", sa.Text, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.ForeignKeyConstraint(["job"], ["jobs.name"], name="fk_job_parts_job"),
        sa.PrimaryKeyConstraint("job", "part", "number", name="pk_job_parts"),
    )
