"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

# As the code of this revision had it: never taken from `schema`, which moves on.
SERIAL = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Creates everything."""
    _experiments()
    _runs()
    _points()
    _documents()


def _experiments() -> None:
    op.create_table(
        "experiments",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("updated_ms", sa.BigInteger, nullable=False),
        sa.Column("is_archived", sa.Boolean, nullable=False),
        sa.Column("tags", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_experiments"),
        sa.UniqueConstraint("name", name="uq_experiments_name"),
    )
    op.create_table(
        "experiment_ids",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("experiment", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_experiment_ids"),
    )


def _runs() -> None:
    op.create_table(
        "runs",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("experiment", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("start_ms", sa.BigInteger, nullable=False),
        sa.Column("end_ms", sa.BigInteger),
        sa.Column("user", sa.Text, nullable=False),
        sa.Column("job", sa.Text, nullable=False),
        sa.Column("is_open", sa.Boolean, nullable=False),
        sa.Column("is_settled", sa.Boolean, nullable=False),
        sa.Column("deleted_ms", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
    )
    op.create_index("ix_runs_experiment_start_ms", "runs", ["experiment", "start_ms"])
    op.create_index("ix_runs_is_open", "runs", ["is_open"])
    op.create_index("ix_runs_job", "runs", ["job"])
    op.create_table(
        "params",
        sa.Column("run", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("value", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("run", "key", name="pk_params"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "tags",
        sa.Column("run", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("value", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("run", "key", name="pk_tags"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "links",
        sa.Column("id", SERIAL, nullable=False),
        sa.Column("run", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("dataset_name", sa.Text, nullable=False),
        sa.Column("dataset_digest", sa.Text, nullable=False),
        sa.Column("context", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_links"),
        sa.UniqueConstraint("run", "kind", "digest", name="uq_links_run_kind_digest"),
    )


def _points() -> None:
    op.create_table(
        "series",
        sa.Column("id", SERIAL, nullable=False),
        sa.Column("run", sa.Text, nullable=False),
        sa.Column("rank", sa.Integer, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("length", sa.BigInteger, nullable=False),
        sa.Column("last_value", sa.Double),
        sa.Column("last_step", sa.BigInteger, nullable=False),
        sa.Column("last_at_ms", sa.BigInteger, nullable=False),
        sa.Column("min_value", sa.Double),
        sa.Column("min_step", sa.BigInteger),
        sa.Column("min_at_ms", sa.BigInteger),
        sa.Column("max_value", sa.Double),
        sa.Column("max_step", sa.BigInteger),
        sa.Column("max_at_ms", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name="pk_series"),
        sa.UniqueConstraint("run", "rank", "name", name="uq_series_run_rank_name"),
    )
    op.create_table(
        "points",
        sa.Column("series", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("n", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("value", sa.Double),
        sa.Column("step", sa.BigInteger, nullable=False),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("series", "n", name="pk_points"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "blocks",
        sa.Column("series", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("n", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("low_n", sa.BigInteger, nullable=False),
        sa.Column("low", sa.Double),
        sa.Column("high_n", sa.BigInteger, nullable=False),
        sa.Column("high", sa.Double),
        sa.PrimaryKeyConstraint("series", "n", name="pk_blocks"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "sources",
        sa.Column("job", sa.Text, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("node", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("taken", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("job", "attempt", "node", name="pk_sources"),
    )


def _documents() -> None:
    op.create_table(
        "documents",
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("kind", "name", "version", name="pk_documents"),
    )
    op.create_table(
        "versions",
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("highest", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("kind", "name", name="pk_versions"),
    )
