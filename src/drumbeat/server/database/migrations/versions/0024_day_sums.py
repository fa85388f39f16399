"""The time of jobs that have ended, summed by day."""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"

PARTS = ("queue", "provision", "stage", "environment", "start", "train", "checkpoint", "lost", "stall", "after")
KINDS = {"compute": ("'\"\"'", "''"), "experiment": ("experiment", "''"), "person": ("'\"\"'", "person")}
"""With what stands for the experiment, a JSON string, and for the person."""


def upgrade() -> None:
    """Creates the table, and sums what is there."""
    op.create_table(
        "day_sums",
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("day", sa.BigInteger, nullable=False),
        sa.Column("compute", sa.Text, nullable=False),
        sa.Column("experiment", sa.Text, nullable=False),
        sa.Column("person", sa.Text, nullable=False),
        sa.Column("slots", sa.Integer, nullable=False),
        sa.Column("gpus", sa.Integer, nullable=False),
        sa.Column("busy_us", sa.Double, nullable=False),
        *(sa.Column(f"{one}_us", sa.BigInteger, nullable=False) for one in PARTS),
        sa.PrimaryKeyConstraint("kind", "day", "compute", "experiment", "person", "slots", "gpus", name="pk_day_sums"),
        sqlite_with_rowid=False,
    )
    op.drop_index("ix_job_times_number", "job_times")
    op.create_index("ix_job_times_number", "job_times", ["number", "since", "until"])
    columns = ", ".join(f"{one}_us" for one in PARTS)
    sums = ", ".join(f"SUM({one}_us)" for one in PARTS)
    busy = "CASE WHEN gpus > 0 THEN (train_us + checkpoint_us) * gpus * COALESCE(busy, 1.0) ELSE 0.0 END"
    for kind, (experiment, person) in KINDS.items():
        op.execute(
            f"INSERT INTO day_sums (kind, day, compute, experiment, person, slots, gpus, busy_us, {columns})"  # noqa: S608
            f" SELECT '{kind}', since / 86400000000, compute, {experiment}, {person}, slots, gpus, SUM({busy}), {sums}"
            " FROM job_times WHERE until > since GROUP BY 1, 2, 3, 4, 5, 6, 7"
        )
