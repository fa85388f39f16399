"""A database that only the server with the lease writes to: what the parts of the store share."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from sqlalchemy import Connection

from drumbeat.server.database.database import Database
from drumbeat.server.loop.lease_tables import Lease


class LeasedDatabase:
    """A database with the lease that each of its writes is refused without."""

    def __init__(self, database: Database, lease: Lease) -> None:
        self._database, self._lease = database, lease

    @contextmanager
    def _write(self) -> Generator[Connection]:
        """A transaction to write in, refused once another server has taken the lease."""
        with self._database.write() as connection:
            self._lease.fence(connection)
            yield connection
