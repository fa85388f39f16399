"""What attempts held, the time of jobs that have ended, and what computes had to give."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"

PARTS = ("queue", "provision", "stage", "environment", "start", "train", "checkpoint", "lost", "stall", "after")


def upgrade() -> None:
    """Creates the tables."""
    serial = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.create_table(
        "past_holds",
        sa.Column("id", serial, nullable=False),
        sa.Column("job", sa.Text, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("slots", sa.Integer, nullable=False),
        sa.Column("gpus", sa.Integer, nullable=False),
        sa.Column("since", sa.DateTime(timezone=True)),
        sa.Column("until", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_past_holds"),
        sa.ForeignKeyConstraint(["job"], ["jobs.name"], name="fk_past_holds_job"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_past_holds_job", "past_holds", ["job"])
    op.create_table(
        "job_times",
        sa.Column("id", serial, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("job", sa.Text, nullable=False),
        sa.Column("compute", sa.Text, nullable=False),
        sa.Column("experiment", sa.Text, nullable=False),
        sa.Column("person", sa.Text, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("since", sa.BigInteger, nullable=False),
        sa.Column("until", sa.BigInteger, nullable=False),
        sa.Column("slots", sa.Integer, nullable=False),
        sa.Column("gpus", sa.Integer, nullable=False),
        sa.Column("busy", sa.Double),
        *(sa.Column(f"{one}_us", sa.BigInteger, nullable=False) for one in PARTS),
        sa.PrimaryKeyConstraint("id", name="pk_job_times"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_job_times_number", "job_times", ["number"])
    op.create_index("ix_job_times_until", "job_times", ["until"])
    op.create_table(
        "capacities",
        sa.Column("id", serial, nullable=False),
        sa.Column("compute", sa.Text, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("slots", sa.Integer, nullable=False),
        sa.Column("gpus", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_capacities"),
        sqlite_autoincrement=True,
    )
