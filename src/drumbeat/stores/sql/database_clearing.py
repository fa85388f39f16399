"""Emptying a database: for simulations, which use one over and over and begin with an empty one each time."""

from __future__ import annotations

from pathlib import Path

from drumbeat.stores.sql.database import Database, parse_url
from drumbeat.stores.sql.schema import metadata


def clear(place: str | Path) -> None:
    """Takes every row out of every table. Nothing asks whether that is meant: the caller knows whose database it is."""
    database = Database(parse_url(place))
    try:
        with database.write() as connection:
            for table in reversed(metadata.sorted_tables):
                connection.execute(table.delete())
    finally:
        database.close()
