"""The tables. Every change needs a revision in `migrations/versions`; a test compares the two."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Double, Index, Integer, MetaData, Table, Text, UniqueConstraint

from drumbeat.server.database.schema import Serial

HEAD = "0001"
"""The database revision that this code reads and writes."""

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)

experiments = Table(
    "experiments",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("created_ms", BigInteger, nullable=False),
    Column("updated_ms", BigInteger, nullable=False),
    Column("is_archived", Boolean, nullable=False),
    Column("tags", Text, nullable=False),
)
"""tags: a JSON object."""

experiment_ids = Table(
    "experiment_ids",
    metadata,
    Column("id", Text, primary_key=True),
    Column("experiment", Text, nullable=False),
)
"""Maps the ids that nodes derive from the other names of an experiment to its own id."""

runs = Table(
    "runs",
    metadata,
    Column("id", Text, primary_key=True),
    Column("experiment", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("start_ms", BigInteger, nullable=False),
    Column("end_ms", BigInteger),
    Column("user", Text, nullable=False),
    Column("job", Text, nullable=False),
    # Whether the job's own run has not been settled. Other runs are never open.
    Column("is_open", Boolean, nullable=False),
    Column("is_settled", Boolean, nullable=False),
    Column("deleted_ms", BigInteger),
    Index(None, "experiment", "start_ms"),
    Index(None, "job"),
    Index(None, "is_open"),
)

params = Table(
    "params",
    metadata,
    Column("run", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
    sqlite_with_rowid=False,
)

tags = Table(
    "tags",
    metadata,
    Column("run", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
    sqlite_with_rowid=False,
)

links = Table(
    "links",
    metadata,
    Column("id", Serial, primary_key=True),
    Column("run", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("dataset_name", Text, nullable=False),
    Column("dataset_digest", Text, nullable=False),
    Column("context", Text, nullable=False),
    Column("body", Text, nullable=False),
    UniqueConstraint("run", "kind", "digest"),
)
"""Datasets and models that a run used or produced. digest: of the JSON body."""

series = Table(
    "series",
    metadata,
    Column("id", Serial, primary_key=True),
    Column("run", Text, nullable=False),
    Column("rank", Integer, nullable=False),
    Column("name", Text, nullable=False),
    Column("length", BigInteger, nullable=False),
    Column("last_value", Double),
    Column("last_step", BigInteger, nullable=False),
    Column("last_at_ms", BigInteger, nullable=False),
    Column("min_value", Double),
    Column("min_step", BigInteger),
    Column("min_at_ms", BigInteger),
    Column("max_value", Double),
    Column("max_step", BigInteger),
    Column("max_at_ms", BigInteger),
    UniqueConstraint("run", "rank", "name"),
)
"""NaN is stored as NULL, because SQLite has no NaN. The points of min and max are NULL if all values are NaN."""

points = Table(
    "points",
    metadata,
    Column("series", BigInteger, primary_key=True, autoincrement=False),
    Column("n", BigInteger, primary_key=True, autoincrement=False),
    Column("value", Double),
    Column("step", BigInteger, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)
"""n: the index within the series in the order of arrival, from 0 without gaps."""

blocks = Table(
    "blocks",
    metadata,
    Column("series", BigInteger, primary_key=True, autoincrement=False),
    Column("n", BigInteger, primary_key=True, autoincrement=False),
    Column("low_n", BigInteger, nullable=False),
    Column("low", Double),
    Column("high_n", BigInteger, nullable=False),
    Column("high", Double),
    sqlite_with_rowid=False,
)
"""The lowest and highest point of each complete block of `BLOCK` points, for thinning long curves."""

BLOCK = 64

sources = Table(
    "sources",
    metadata,
    Column("job", Text, primary_key=True),
    Column("attempt", Integer, primary_key=True, autoincrement=False),
    Column("node", Integer, primary_key=True, autoincrement=False),
    Column("taken", BigInteger, nullable=False),
)

documents = Table(
    "documents",
    metadata,
    Column("kind", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("body", Text, nullable=False),
)

versions = Table(
    "versions",
    metadata,
    Column("kind", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("highest", BigInteger, nullable=False),
)
"""The highest version that each document ever had: the number of a removed version isn't given again."""
