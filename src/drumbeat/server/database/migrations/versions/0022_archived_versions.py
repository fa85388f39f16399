"""Whether a version is archived is a column, for versions of every kind."""

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"

KINDS = {"environments": "environment", "data": "data", "models": "model", "components": "component"}
"""By their names in the paths of Azure's API."""


def upgrade() -> None:
    """Moves what was kept in the documents of models, and in rows of their own for Azure's client."""
    op.add_column("resources", sa.Column("is_archived", sa.Boolean, nullable=False, server_default=sa.false()))
    columns: list[sa.ColumnClause[Any]] = [sa.column(one) for one in ("number", "kind", "name", "version", "document")]
    resources = sa.table("resources", *columns, sa.column("is_archived", sa.Boolean))
    connection = op.get_bind()
    for row in connection.execute(sa.select(resources).where(resources.c.kind == "model")).all():
        document = json.loads(row.document)
        if "is_archived" in document:
            is_archived = bool(document.pop("is_archived"))
            values = {"document": json.dumps(document), "is_archived": is_archived}
            connection.execute(sa.update(resources).where(resources.c.number == row.number).values(values))
    marks = resources.c.kind == "azure-archived"
    for row in connection.execute(sa.select(resources).where(marks)).all():
        path, _, name = json.loads(row.name).partition("/")
        one = (
            resources.c.kind == KINDS.get(path, ""), resources.c.name == json.dumps(name),
            resources.c.version == row.version,
        )  # fmt: skip
        connection.execute(sa.update(resources).where(*one).values(is_archived=True))
    connection.execute(sa.delete(resources).where(marks))
