"""What attempts hold, remembered: of thousands, only those of jobs whose slots have changed are read again."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from drumbeat.core.scheduling.fair_share import HeldSlots
from drumbeat.server.computes.usage_tables import HeldByAttempt, held_by_jobs
from drumbeat.server.database.database import Database

MAX_READ_BY_NAME = 200
"""Of more jobs than these, all are read."""


class HeldSlotsMemory:
    """The slots of all attempts, as they were when they were last read. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._by_job: dict[str, list[HeldByAttempt]] = {}
        self._in_order: list[HeldSlots] | None = None
        self._changed: set[str] = set()
        self._is_old = True
        """Whether the slots of any job may have changed."""
        self.version = 0
        """Changes whenever slots may have been taken or given back: what was read of them before may be old."""

    def note(self, jobs: Iterable[str] | None) -> None:
        """Notes that the slots of these jobs may have changed. None: of any job."""
        with self._lock:
            if jobs is None:
                self._is_old = True
            else:
                self._changed.update(jobs)
            self.version += 1

    def all(self) -> list[HeldSlots]:
        """What each attempt holds, by compute, job and attempt."""
        with self._lock:
            self._refresh()
            if self._in_order is None:
                held = [
                    (one.held.compute, job, one.attempt, one.held) for job, some in self._by_job.items() for one in some
                ]
                self._in_order = [one for *_, one in sorted(held, key=lambda entry: entry[:3])]
            return [*self._in_order]

    def of_compute(self, compute: str) -> tuple[int, dict[tuple[str, int], HeldByAttempt]]:
        """What each attempt holds of a compute, by job and attempt, in their order; and its version."""
        with self._lock:
            version = self.version
            self._refresh()
            held = {
                (job, one.attempt): one
                for job, some in sorted(self._by_job.items())
                for one in some
                if one.held.compute == compute
            }
            return version, held

    def _refresh(self) -> None:
        if not self._is_old and not self._changed:
            return
        names = None if self._is_old or len(self._changed) > MAX_READ_BY_NAME else sorted(self._changed)
        with self._database.read() as connection:
            by_job = held_by_jobs(connection, names)
        if names is None:
            self._by_job = by_job
        else:
            for name in names:
                self._by_job.pop(name, None)
            self._by_job.update(by_job)
        self._changed.clear()
        self._is_old, self._in_order = False, None
