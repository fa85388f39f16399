"""The part of the store with the time of jobs: what they hold and have held, and what computes had."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from drumbeat.core.use_times import Hold, Window
from drumbeat.model.api.ledger import LedgerGroup
from drumbeat.server.computes import usage_tables as usage
from drumbeat.server.computes.usage_tables import Capacity
from drumbeat.server.database.leased_database import LeasedDatabase
from drumbeat.server.database.records import BookedRow, BookedTimes
from drumbeat.server.jobs import time_tables as job_times


class JobTimeStore(LeasedDatabase):
    """Books the time of jobs that have ended, and reads what is booked and held."""

    def unbooked_jobs(self) -> list[str]:
        """Returns the jobs whose time isn't booked, unfinished ones among them, in the order of submission."""
        with self._database.read() as connection:
            return job_times.unbooked(connection)

    def slot_holders(self) -> set[str]:
        """Returns the jobs that hold slots."""
        with self._database.read() as connection:
            return job_times.holders(connection)

    def holds(self, names: Sequence[str]) -> dict[str, list[Hold]]:
        """Returns what the attempts of these jobs hold, and what they held before, by job."""
        with self._database.read() as connection:
            return usage.holds(connection, names)

    def book_times(self, some: Sequence[BookedTimes]) -> None:
        """Keeps the time of jobs that have ended, also when they are deleted. Twice is the same as once."""
        with self._write() as connection:
            job_times.book(connection, some)

    def booked_sums(
        self, span: Window, by: LedgerGroup, compute: str = "", largest: int | None = None
    ) -> tuple[job_times.Sums, list[BookedRow]]:
        """Returns the booked time in a window: sums by name, compute and bucket, and rows that buckets share.

        compute: "" = of all. largest: only by job: of so many alone, those that held the most; None = of all.
        """
        with self._database.read() as connection:
            shared = job_times.rows_across(connection, span, by, compute, largest)
            return job_times.sums(connection, span, by, compute, largest), shared

    def most_unused(self, span: Window, compute: str, limit: int) -> list[BookedRow]:
        """Returns the booked time in a window of the jobs that held the most without use. compute: "" = of any."""
        with self._database.read() as connection:
            return job_times.most_unused(connection, span, compute, limit)

    def booked_jobs(self, span: Window, by: LedgerGroup) -> tuple[dict[str, int], int]:
        """Returns how many jobs have booked time in a window, by name, and all together."""
        with self._database.read() as connection:
            return job_times.job_counts(connection, span, by)

    def booked_waits(self, span: Window, compute: str) -> list[int]:
        """Returns how many microseconds each booked job was in queues in a window. compute: "" = of any."""
        with self._database.read() as connection:
            return job_times.waits(connection, span, compute)

    def note_capacity(self, compute: str, at: datetime, slots: int, gpus: int) -> None:
        """Keeps what a compute has from now on."""
        with self._write() as connection:
            usage.note_capacity(connection, compute, at, slots, gpus)

    def capacities(self) -> list[Capacity]:
        """Returns what computes had, and from when on, oldest first."""
        with self._database.read() as connection:
            return usage.all_capacities(connection)
