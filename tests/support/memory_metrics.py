"""The store of metrics over SQLite in memory, for tests."""

from __future__ import annotations

from drumbeat.server.metrics.tables.schema import metadata
from drumbeat.server.metrics.tables.store import SqlMetricStore
from tests.support.memory_database import MemoryDatabase


class MemoryMetricStore(SqlMetricStore):
    """`SqlMetricStore` over a database in memory, a new one unless it is given."""

    def __init__(self, database: MemoryDatabase | None = None) -> None:
        self.database = database or MemoryDatabase(metadata)
        super().__init__(self.database)
