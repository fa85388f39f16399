"""The `Store` port on SQL: SQLite in a file by default, PostgreSQL by URL."""

from drumbeat.stores.sql.database_clearing import clear
from drumbeat.stores.sql.store import SqlStore, make_store

__all__ = ["SqlStore", "clear", "make_store"]
