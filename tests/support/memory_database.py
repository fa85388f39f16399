"""An SQLite database in memory: made as a copy of one that has its tables, which takes a fraction of a millisecond."""

from __future__ import annotations

import functools
import sqlite3
import threading
import weakref
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, MetaData, StaticPool, create_engine

from drumbeat.server.database.database import Database
from drumbeat.server.database.database_errors import refusals


class MemoryDatabase(Database):
    """A database with the tables of a schema, in this process. Stores over it may be closed: it stays.

    It has one connection, whose transactions come one after the other, whatever thread they are of.
    """

    def __init__(self, schema: MetaData) -> None:
        template = _template(schema)
        raw = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        raw.deserialize(template.content)
        raw.execute("PRAGMA foreign_keys = ON")
        self.where, self.is_sqlite, self._raw = "memory", True, raw
        # With a dialect and a cache of its own each would compile every statement again.
        dialect, options = template.engine.dialect, {"compiled_cache": template.compiled}
        pool = StaticPool(lambda: raw, dialect=dialect)  # pyright: ignore[reportArgumentType] (SQLAlchemy takes it)
        self.engine = Engine(pool, dialect, template.engine.url, execution_options=options)
        self._connection = self.engine.connect()
        self._alone = threading.RLock()
        weakref.finalize(self, _close, self._connection, raw)

    @contextmanager
    def read(self) -> Generator[Connection]:
        with refusals(self.where), self._alone, self._connection.begin():
            yield self._connection

    @contextmanager
    def write(self) -> Generator[Connection]:
        with refusals(self.where), self._alone, self._connection.begin():
            self._raw.execute("BEGIN")
            yield self._connection

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """What a query gives, as SQLite has it."""
        return self._raw.execute(query).fetchall()

    @property
    def changes(self) -> int:
        """Grows with each row that is written."""
        return self._raw.total_changes

    def close(self) -> None:
        """Another store may be over it: it goes when nobody has it any more."""


def _close(connection: Connection, raw: sqlite3.Connection) -> None:
    connection.close()
    raw.close()


class _Template:
    """An empty database with its tables. content: as SQLite serializes it. compiled: statements, for all copies."""

    def __init__(self, schema: MetaData) -> None:
        raw = sqlite3.connect(":memory:", check_same_thread=False)
        self.engine: Engine = create_engine("sqlite://", poolclass=StaticPool, creator=lambda: raw)
        self.compiled: dict[Any, Any] = {}
        schema.create_all(self.engine)
        raw.commit()
        self.content = raw.serialize()


_template = functools.cache(_Template)
