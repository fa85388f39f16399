"""Several servers over one database: where they are, what came to the wrong one, who booked a compute last."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_serial = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Adds a column and two tables; slots that are held count as one booking of their compute."""
    op.add_column("servers", sa.Column("address", sa.Text, nullable=False, server_default=""))
    op.create_table(
        "inbox",
        sa.Column("id", _serial, nullable=False),
        sa.Column("job", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_inbox"),
        sa.ForeignKeyConstraint(["job"], ["jobs.name"], name="fk_inbox_job"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_inbox_job", "inbox", ["job"])
    op.create_table(
        "bookings",
        sa.Column("compute", sa.Text, nullable=False),
        sa.Column("count", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("compute", name="pk_bookings"),
    )
    op.execute("INSERT INTO bookings (compute, count) SELECT DISTINCT compute, 1 FROM reservations")
