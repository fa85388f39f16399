"""Since when the ranks stood still, of lines of stories that tell so."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Adds a column; of earlier hangs it is unknown."""
    op.add_column("story", sa.Column("since", sa.DateTime(timezone=True)))
