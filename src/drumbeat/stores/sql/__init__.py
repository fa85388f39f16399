"""Jobs and all that must be durable with them, in SQL: SQLite in a file by default, PostgreSQL by URL."""

from drumbeat.stores.sql.store import SqlStore, make_store

__all__ = ["SqlStore", "make_store"]
