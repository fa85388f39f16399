"""The tables. A change here goes with a revision in `migrations/versions`; a test compares the two."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

HEAD = "0024"
"""The database revision that this code reads and writes."""

Serial = BigInteger().with_variant(Integer, "sqlite")
"""A number that the database counts; SQLite counts only its own INTEGER."""


class UtcTime(TypeDecorator[datetime]):
    """An aware time, in UTC in the database and back, also where the database knows no zones."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002 - SQLAlchemy's signature
        """Refuses a time without a zone, whose meaning would depend on the machine."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value} has no zone")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002 - as above
        """The same instant, in UTC."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class AnyText(TypeDecorator[str]):
    """Text with whatever a user or a rank put into it: databases refuse NUL and half surrogate pairs."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002 - as above
        """As a JSON string."""
        return None if value is None else json.dumps(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002 - as above
        """The text in it."""
        return None if value is None else str(json.loads(value))


metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
    }
)

servers = Table(
    "servers",
    metadata,
    Column("token", Serial, primary_key=True),
    Column("started_at", UtcTime, nullable=False),
    Column("address", Text, nullable=False),
    Column("url", Text, nullable=False),
    Column("doors", Text, nullable=False, server_default="{}"),
    Column("seen_at", Double, nullable=False),
    sqlite_autoincrement=True,
)
"""Server processes: the active one, and standbys. address, url: see `LiveServer`. doors: its `agent_urls` as JSON.
seen_at: seconds of the lease's clock at which the process last tried to take the lease."""

lease = Table(
    "lease",
    metadata,
    Column("epoch", BigInteger, primary_key=True, autoincrement=False),
    Column("holder", BigInteger, nullable=False),
    Column("expires_at", Double, nullable=False),
)
"""One row. epoch: grows whenever a server takes the lease. holder: its token, 0 = none. expires_at: seconds."""

jobs = Table(
    "jobs",
    metadata,
    Column("number", Serial, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("version", BigInteger, nullable=False),
    Column("archived", Boolean, nullable=False),
    Column("state", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("experiment", AnyText, nullable=False),
    Column("display_name", AnyText, nullable=False),
    Column("submitted_at", UtcTime, nullable=False),
    # The long one comes last but for columns added later: SQLite finds the others without walking its pages.
    Column("document", Text, nullable=False),
    Column("parent", Text, nullable=False, server_default=""),
    Column("person", Text, nullable=False, server_default=""),
    # A page of a list is found in this index alone; only its own jobs are read.
    Index(None, "archived", "number", "state", "experiment"),
    Index(None, "state", "number"),
    Index(None, "parent", "number"),
    Index(None, "person", "number"),
    sqlite_autoincrement=True,
)
"""number: the order of submission. document: the `Job` as JSON; what lists are made by is beside it."""

job_parts = Table(
    "job_parts",
    metadata,
    Column("job", Text, ForeignKey("jobs.name"), primary_key=True),
    Column("part", Text, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("document", Text, nullable=False),
)
"""Parts of large jobs, which their documents leave out (`server/jobs/part_tables.py`). number: of the node, where each
node has a row of that part."""

submissions = Table(
    "submissions",
    metadata,
    Column("key", AnyText, primary_key=True),
    Column("job", Text, ForeignKey("jobs.name"), nullable=False, unique=True),
    Column("spec", Text, nullable=False),
    Column("request", Text, nullable=False, server_default=""),
)
"""What a user sent, written once: apart from `jobs`, whose rows are written often. request: the
request as JSON, from which children, and jobs by schedules, are submitted; that of a command has no document, which is
`spec`; "" for trials and steps."""

job_events = Table(
    "story",
    metadata,
    Column("id", Serial, primary_key=True),
    Column("job", Text, ForeignKey("jobs.name"), nullable=False),
    Column("at", UtcTime, nullable=False),
    Column("state", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("sentence", AnyText, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("round", Integer, nullable=False),
    Column("since", UtcTime),
    Index(None, "job", "id"),
    sqlite_autoincrement=True,
)
"""Rows are only ever added. since: as in `JobEvent`."""

outbox = Table(
    "outbox",
    metadata,
    Column("id", Serial, primary_key=True),
    Column("job", Text, ForeignKey("jobs.name"), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("n", Integer, nullable=False),
    Column("tries", Integer, nullable=False),
    Column("effect", Text, nullable=False),
    UniqueConstraint("job", "attempt", "n"),
    sqlite_autoincrement=True,
)
"""Effects that aren't done."""

reservations = Table(
    "reservations",
    metadata,
    Column("compute", Text, primary_key=True),
    Column("job", Text, ForeignKey("jobs.name"), primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("node", Integer, primary_key=True),
    Column("machine", Text, nullable=False),
    Column("cpus", Integer, nullable=False),
    Column("gpus", Text, nullable=False),
    Column("since", UtcTime),
    Index(None, "job", "attempt"),
)
"""Slots that attempts hold. gpus: a JSON list. since: when they were granted; NULL by versions without users."""

past_use = Table(
    "past_use",
    metadata,
    Column("person", Text, primary_key=True),
    Column("amount", Double, nullable=False),
    Column("at", UtcTime, nullable=False),
)
"""Slot-hours of attempts that gave their slots back, as they counted at that time."""

past_holds = Table(
    "past_holds",
    metadata,
    Column("id", Serial, primary_key=True),
    Column("job", Text, ForeignKey("jobs.name"), nullable=False, index=True),
    Column("attempt", Integer, nullable=False),
    Column("slots", Integer, nullable=False),
    Column("gpus", Integer, nullable=False),
    Column("since", UtcTime),
    Column("until", UtcTime, nullable=False),
    sqlite_autoincrement=True,
)
"""What attempts held that gave their slots back."""

TIME_PARTS = ("queue", "provision", "stage", "environment", "start", "train", "checkpoint", "lost", "stall", "after")
"""As the vectors of `core/use_times.py` have them."""

job_times = Table(
    "job_times",
    metadata,
    Column("id", Serial, primary_key=True),
    Column("number", BigInteger, nullable=False),
    Column("job", Text, nullable=False),
    Column("compute", Text, nullable=False),
    Column("experiment", AnyText, nullable=False),
    Column("person", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("since", BigInteger, nullable=False),
    Column("until", BigInteger, nullable=False, index=True),
    Column("slots", Integer, nullable=False),
    Column("gpus", Integer, nullable=False),
    Column("busy", Double),
    *(Column(f"{one}_us", BigInteger, nullable=False) for one in TIME_PARTS),
    Index("ix_job_times_number", "number", "since", "until"),
    sqlite_autoincrement=True,
)
"""The time of jobs that have ended, by attempt and day, in microseconds. It stays when a job is deleted. number: of the
job in `jobs`. busy: how busy its GPUs were, from 0 to 1. A job without any time has a row that is empty."""

day_sums = Table(
    "day_sums",
    metadata,
    Column("kind", Text, primary_key=True),
    Column("day", BigInteger, primary_key=True, autoincrement=False),
    Column("compute", Text, primary_key=True),
    Column("experiment", AnyText, primary_key=True),
    Column("person", Text, primary_key=True),
    Column("slots", Integer, primary_key=True, autoincrement=False),
    Column("gpus", Integer, primary_key=True, autoincrement=False),
    Column("busy_us", Double, nullable=False),
    *(Column(f"{one}_us", BigInteger, nullable=False) for one in TIME_PARTS),
    sqlite_with_rowid=False,
)
"""The sums of `job_times` by day since 1970. kind: whose sums, by a group of the ledger: "compute", "experiment" or
"person". experiment, person: empty where the sums aren't theirs. busy_us: the time of GPUs while ranks worked, by how
busy they were."""

capacities = Table(
    "capacities",
    metadata,
    Column("id", Serial, primary_key=True),
    Column("compute", Text, nullable=False),
    Column("at", UtcTime, nullable=False),
    Column("slots", Integer, nullable=False),
    Column("gpus", Integer, nullable=False),
    sqlite_autoincrement=True,
)
"""What the usable machines of a compute had together, from a time on."""

removals = Table(
    "removals",
    metadata,
    Column("name", Text, primary_key=True),
    Column("version", BigInteger, nullable=False),
    Column("note", AnyText, nullable=False),
    Column("done", Boolean, nullable=False),
)
"""Jobs that were deleted. version: the last one, from which a new job of the name goes on. note: of the
server that deleted it. done: their files are gone."""

settings = Table(
    "settings",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)
"""What a user set for all servers over this database."""

access_tokens = Table(
    "access_tokens",
    metadata,
    Column("digest", Text, primary_key=True),
    Column("person", Text, nullable=False, index=True),
    Column("role", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("label", Text, nullable=False),
    Column("session", Text, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("expires_at", UtcTime),
    Column("used_at", UtcTime),
)
"""Tokens of users. digest: SHA-256 of the token. kind: `TokenKind`. session: the provider's, "" = none."""

provider_users = Table(
    "provider_users",
    metadata,
    Column("issuer", Text, primary_key=True),
    Column("subject", Text, primary_key=True),
    Column("person", Text, nullable=False, unique=True),
    Column("role", Text, nullable=False),
)
"""Users of the identity provider, by its id of them. role: of the last sign-in or check; "" = it was refused."""

provider_sessions = Table(
    "provider_sessions",
    metadata,
    Column("session", Text, primary_key=True),
    Column("issuer", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("sid", Text, nullable=False),
    Column("refresh_token", LargeBinary, nullable=False),
    Column("by_device", Boolean, nullable=False),
    Column("checked_at", UtcTime, nullable=False),
)
"""Sessions at the identity provider. sid: the provider's name of it, "" = none. refresh_token: sealed, b"" = none."""

facts = Table(
    "facts",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)
"""What all servers over this database must agree on, as the first of them said it."""

resources = Table(
    "resources",
    metadata,
    Column("number", Serial, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("name", AnyText, nullable=False),
    Column("version", AnyText, nullable=False),
    Column("digest", Text, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("made_by", Text, nullable=False),
    Column("document", Text, nullable=False),
    Column("sealed", LargeBinary, nullable=False),
    Column("is_archived", Boolean, nullable=False),
    UniqueConstraint("kind", "name", "version"),
    sqlite_autoincrement=True,
)
"""What has a name, as `Resource` has it. number: the order in which they came. document: JSON. sealed: encrypted."""

asset_uses = Table(
    "asset_uses",
    metadata,
    Column("id", Serial, primary_key=True),
    Column("job", Text, ForeignKey("jobs.name"), nullable=False),
    Column("kind", Text, nullable=False),
    Column("name", AnyText, nullable=False),
    Column("version", AnyText, nullable=False),
    Column("role", AnyText, nullable=False),
    Index(None, "job"),
    Index(None, "kind", "name", "version"),
    sqlite_autoincrement=True,
)
"""Which job named which resource."""
