"""Where agents on other machines call each of several servers."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Adds a column."""
    op.add_column("servers", sa.Column("doors", sa.Text, nullable=False, server_default="{}"))
