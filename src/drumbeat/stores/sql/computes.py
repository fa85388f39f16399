"""The computes that people have made."""

from __future__ import annotations

import json

from sqlalchemy import Connection, delete, insert, select, update

from drumbeat.protocol.errors import NotFoundError
from drumbeat.stores.sql.schema import computes


def read(connection: Connection) -> dict[str, dict[str, object]]:
    """Name to spec."""
    rows = connection.execute(select(computes).order_by(computes.c.name))
    return {row.name: json.loads(row.spec) for row in rows}


def keep(connection: Connection, name: str, spec: dict[str, object]) -> None:
    """Writes a spec, over the one that there is."""
    text = json.dumps(spec, separators=(",", ":"))
    if connection.execute(update(computes).where(computes.c.name == name).values(spec=text)).rowcount == 0:
        connection.execute(insert(computes).values(name=name, spec=text))


def remove(connection: Connection, name: str) -> None:
    """Removes one. Raises NotFoundError."""
    if connection.execute(delete(computes).where(computes.c.name == name)).rowcount == 0:
        raise NotFoundError(f"there is no compute {name}", fix="See `drumbeat compute list`.")
