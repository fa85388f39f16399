"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

# As the code of this revision had them: never taken from `schema`, which moves on.
_serial = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_time = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Creates everything."""
    _servers_and_jobs()
    _story_and_outbox()
    _reservations_and_aliases()


def _servers_and_jobs() -> None:
    op.create_table(
        "servers",
        sa.Column("token", _serial, nullable=False),
        sa.Column("beats", sa.BigInteger, nullable=False),
        sa.Column("started_at", _time, nullable=False),
        sa.PrimaryKeyConstraint("token", name="pk_servers"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "jobs",
        sa.Column("number", _serial, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("lease", sa.BigInteger, nullable=False),
        sa.Column("archived", sa.Boolean, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("priority", sa.Integer, nullable=False),
        sa.Column("experiment", sa.Text, nullable=False),
        sa.Column("display_name", sa.Text, nullable=False),
        sa.Column("submitted_at", _time, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_jobs"),
        sa.UniqueConstraint("name", name="uq_jobs_name"),
        sqlite_autoincrement=True,
    )
    page = ["archived", "number", "state", "experiment"]
    op.create_index("ix_jobs_archived_number_state_experiment", "jobs", page)
    op.create_index("ix_jobs_state_number", "jobs", ["state", "number"])
    op.create_table(
        "submissions",
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("job", sa.Text, nullable=False),
        sa.Column("spec", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_submissions"),
        sa.UniqueConstraint("job", name="uq_submissions_job"),
        sa.ForeignKeyConstraint(["job"], ["jobs.name"], name="fk_submissions_job"),
    )


def _story_and_outbox() -> None:
    op.create_table(
        "story",
        sa.Column("id", _serial, nullable=False),
        sa.Column("job", sa.Text, nullable=False),
        sa.Column("at", _time, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("sentence", sa.Text, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("round", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_story"),
        sa.ForeignKeyConstraint(["job"], ["jobs.name"], name="fk_story_job"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_story_job_id", "story", ["job", "id"])
    op.create_table(
        "outbox",
        sa.Column("id", _serial, nullable=False),
        sa.Column("job", sa.Text, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("n", sa.Integer, nullable=False),
        sa.Column("tries", sa.Integer, nullable=False),
        sa.Column("effect", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_outbox"),
        sa.UniqueConstraint("job", "attempt", "n", name="uq_outbox_job_attempt_n"),
        sa.ForeignKeyConstraint(["job"], ["jobs.name"], name="fk_outbox_job"),
        sqlite_autoincrement=True,
    )


def _reservations_and_aliases() -> None:
    op.create_table(
        "reservations",
        sa.Column("compute", sa.Text, nullable=False),
        sa.Column("job", sa.Text, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("node", sa.Integer, nullable=False),
        sa.Column("machine", sa.Text, nullable=False),
        sa.Column("cpus", sa.Integer, nullable=False),
        sa.Column("gpus", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("compute", "job", "attempt", "node", name="pk_reservations"),
        sa.ForeignKeyConstraint(["job"], ["jobs.name"], name="fk_reservations_job"),
    )
    op.create_index("ix_reservations_job_attempt", "reservations", ["job", "attempt"])
    op.create_table(
        "aliases",
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("kind", "name", name="pk_aliases"),
    )
