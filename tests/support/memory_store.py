"""The store of jobs over SQLite in memory, for tests and simulations."""

from __future__ import annotations

from drumbeat.server.database.schema import metadata
from drumbeat.server.database.store import SqlStore
from drumbeat.server.jobs.tables import Remembered
from drumbeat.server.loop.lease_tables import LeaseRules
from tests.support.memory_database import MemoryDatabase


class JobsDatabase(MemoryDatabase):
    """The database of jobs that several stores may be over, as servers are over one PostgreSQL.

    Stores over it remember the records that they have read in common: a version of a job is the same for all.
    """

    def __init__(self) -> None:
        super().__init__(metadata)
        self.remembered = Remembered()


class MemoryStore(SqlStore):
    """`SqlStore` over a database in memory. Two stores over one database are two servers that share it."""

    remembers_in_common = True
    """Whether a store knows what others have read; else it reads all from the database, which takes longer."""

    def __init__(self, database: JobsDatabase | None = None, rules: LeaseRules | None = None) -> None:
        self.database = database or JobsDatabase()
        super().__init__(self.database, rules)
        if self.remembers_in_common:
            self._remembered = self.database.remembered
