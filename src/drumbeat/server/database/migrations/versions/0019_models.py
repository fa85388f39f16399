"""Data of a model's type becomes versions of models."""

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"

TYPES = ("custom_model", "mlflow_model", "triton_model")
NOT_SIGNED = "it was registered by an earlier version of drumbeat; it is signed when it is verified or exported"


def upgrade() -> None:
    """Moves the rows, and what jobs named of them."""
    connection = op.get_bind()
    names: tuple[str, ...] = ("number", "kind", "name", "version", "digest", "made_by", "document", "sealed")
    columns: list[sa.ColumnClause[Any]] = [sa.column(one) for one in names]
    resources = sa.table("resources", *columns, sa.column("created_at", sa.DateTime(timezone=True)))
    of_uses: list[sa.ColumnClause[Any]] = [sa.column(one) for one in ("kind", "name", "version")]
    uses = sa.table("asset_uses", *of_uses)
    highest: dict[str, int] = {}
    times: dict[str, Any] = {}
    for row in connection.execute(sa.select(resources).where(resources.c.kind == "data")).all():
        document = json.loads(row.document)
        tags = dict(document.get("tags") or {})
        type_ = tags.get("model_type")
        if document.get("type") != "uri_folder" or type_ not in TYPES:
            continue
        made_ms = int(row.created_at.timestamp() * 1000)
        facts = {
            "type": type_, "is_file": False, "stage": "", "is_archived": False, "scan": "", "problem": NOT_SIGNED,
            "created_ms": made_ms, "updated_ms": made_ms,
            "tags": {key: value for key, value in tags.items() if key != "model_type"},
        }  # fmt: skip
        text = json.dumps({**document, **facts})
        one = resources.c.number == row.number
        # The digest named the listing of a folder; that of a model names the bytes of its files.
        connection.execute(sa.update(resources).where(one).values(kind="model", document=text, digest=""))
        named = uses.c.kind == "data", uses.c.name == row.name, uses.c.version == row.version
        connection.execute(sa.update(uses).where(*named).values(kind="model"))
        version = json.loads(row.version)
        highest[row.name] = max(highest.get(row.name, 0), int(version) if version.isdecimal() else 0)
        times[row.name] = row.created_at
    for name, last in highest.items():
        at_ms = int(times[name].timestamp() * 1000)
        shared: dict[str, Any] = {
            "created_ms": at_ms, "updated_ms": at_ms, "description": "", "tags": {}, "aliases": {},
            "last_version": last,
        }  # fmt: skip
        values = {"kind": "registered_model", "name": name, "version": json.dumps(""), "digest": "", "made_by": ""}
        row_of_name = {**values, "created_at": times[name], "document": json.dumps(shared), "sealed": b""}
        connection.execute(sa.insert(resources).values(row_of_name))
