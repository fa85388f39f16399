"""One table for everything with a name, in place of six tables and a setting."""

import base64
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"

SERIAL = sa.BigInteger().with_variant(sa.Integer, "sqlite")
VERSIONED = ("kind", "name", "version", "digest", "created_at", "made_by", "document")
LIMITS = ("slots", "gpus", "waiting")


def upgrade() -> None:
    """Moves the rows, and removes the tables that they were in."""
    resources = op.create_table(
        "resources",
        sa.Column("number", SERIAL, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("made_by", sa.Text, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("sealed", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_resources"),
        sa.UniqueConstraint("kind", "name", "version", name="uq_resources_kind_name_version"),
        sqlite_autoincrement=True,
    )
    connection = op.get_bind()
    assets = _table("assets", "number", *VERSIONED)
    columns = [*(assets.c[name] for name in VERSIONED), sa.literal(b"", sa.LargeBinary)]
    # In their order: the newest version is the one with the highest number, which is assigned again.
    moved = sa.select(*columns).order_by(assets.c.number)
    connection.execute(sa.insert(resources).from_select([*VERSIONED, "sealed"], moved))
    if rows := list(_unversioned(connection)):
        connection.execute(sa.insert(resources), rows)
    for name in ("assets", "datastores", "registries", "computes", "aliases", "quotas"):
        op.drop_table(name)
    settings = _table("settings", "name")
    connection.execute(sa.delete(settings).where(settings.c.name == "notices"))


def _unversioned(connection: sa.Connection) -> Iterator[dict[str, Any]]:
    """Yields what had no versions. Its time of creation is unknown; the time of this upgrade stands for it."""
    now = datetime.now(UTC)

    def row(kind: str, name: str, document: str, sealed: bytes = b"") -> dict[str, Any]:
        written = {"kind": kind, "name": json.dumps(name), "version": json.dumps(""), "digest": "", "made_by": ""}
        return {**written, "created_at": now, "document": document, "sealed": sealed}

    for kind, table in (("datastore", "datastores"), ("registry", "registries")):
        for one in _rows(connection, table, "name", "document", "sealed"):
            yield row(kind, one.name, one.document, bytes(one.sealed))
    for one in _rows(connection, "computes", "name", "spec"):
        yield row("compute", one.name, one.spec)
    for one in _rows(connection, "aliases", "kind", "name", "target"):
        name = f"{json.loads(one.kind)}/{json.loads(one.name)}"
        yield row("alias", name, json.dumps({"target": json.loads(one.target)}))
    for one in _rows(connection, "quotas", "kind", "name", *LIMITS):
        limits = {name: getattr(one, name) for name in LIMITS}
        yield row("quota", f"{one.kind}/{json.loads(one.name)}", json.dumps(limits))
    for one in _rows(connection, "settings", "name", "value"):
        if one.name == "notices" and one.value:
            for name, target in json.loads(one.value).items():
                sealed = base64.b64decode(target["sealed"])
                yield row("notice", name, json.dumps(target["document"]), sealed)


def _rows(connection: sa.Connection, table: str, *columns: str) -> list[sa.Row[Any]]:
    one = _table(table, *columns)
    return list(connection.execute(sa.select(one).order_by(one.c[columns[0]])))


def _table(name: str, *columns: str) -> sa.TableClause:
    untyped: list[sa.ColumnClause[Any]] = [sa.column(one) for one in columns]
    return sa.table(name, *untyped)
