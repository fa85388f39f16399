"""The requests of sweeps and pipelines, from which their children are submitted."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Adds a column."""
    op.add_column("submissions", sa.Column("request", sa.Text, nullable=False, server_default=""))
