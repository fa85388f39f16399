"""One active server by a lease of one row, in place of a lease of each job."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    """Drops what servers shared jobs by. No server of an earlier version may be running."""
    op.drop_index("ix_inbox_job", "inbox")
    for table in ("inbox", "bookings", "servers"):
        op.drop_table(table)
    op.drop_column("jobs", "lease")
    op.create_table(
        "servers",
        sa.Column("token", sa.BigInteger().with_variant(sa.Integer, "sqlite"), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("address", sa.Text, nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("doors", sa.Text, nullable=False, server_default="{}"),
        sa.Column("seen_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("token", name="pk_servers"),
        sqlite_autoincrement=True,
    )
    lease = op.create_table(
        "lease",
        sa.Column("epoch", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("holder", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("epoch", name="pk_lease"),
    )
    op.bulk_insert(lease, [{"epoch": 0, "holder": 0, "expires_at": 0.0}])
