"""The sweep or pipeline that each job is a part of."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Adds a column with its index; jobs submitted before have no parent."""
    op.add_column("jobs", sa.Column("parent", sa.Text, nullable=False, server_default=""))
    op.create_index("ix_jobs_parent_number", "jobs", ["parent", "number"])
