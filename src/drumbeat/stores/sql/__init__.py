"""Jobs and all that must be durable with them, in SQL: SQLite in a file by default, PostgreSQL by URL."""

from drumbeat.stores.sql.leases import LeaseRules
from drumbeat.stores.sql.store import SqlStore, make_store

__all__ = ["LeaseRules", "SqlStore", "make_store"]
