"""Jobs and all that must be durable with them, in SQL: SQLite in a file by default, PostgreSQL by URL."""

from drumbeat.server.database.store import SqlStore, make_store
from drumbeat.server.loop.lease_tables import LeaseRules

__all__ = ["LeaseRules", "SqlStore", "make_store"]
