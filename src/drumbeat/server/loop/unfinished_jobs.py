"""The unfinished jobs in the loop's memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from drumbeat.core.lifecycle.job import Job
from drumbeat.model.states import State
from drumbeat.server.database.records import Record


class UnfinishedJobs(dict[str, Record]):
    """Jobs by name, which remember who has changed: placement doesn't look at each of ten thousand every time.

    Only the loop's thread changes them, and any may read.
    """

    def __init__(self) -> None:
        super().__init__()
        self._changed: set[str] = set()

    def replace(self, records: Iterable[Record]) -> None:
        """Puts these in place of all that there are."""
        self.clear()
        for record in records:
            self[record.job.name] = record

    def __setitem__(self, name: str, record: Record) -> None:
        super().__setitem__(name, record)
        self._changed.add(name)

    def pop(self, name: str, default: Record | None = None) -> Record | None:  # type: ignore[override]
        """Removes a job, and returns it."""
        self._changed.add(name)
        return super().pop(name, default)

    def clear(self) -> None:
        """Removes all."""
        self._changed.update(self)
        super().clear()

    def queued(self) -> list[Job]:
        """Returns the jobs that wait for slots."""
        return [record.job for record in list(self.values()) if is_queued(record.job)]

    def take_changed(self) -> Iterator[str]:
        """Takes the names of jobs that have changed since it was last called."""
        while self._changed:
            yield self._changed.pop()


def is_queued(job: Job) -> bool:
    """Whether a job waits for slots; one that waits before another try doesn't, yet."""
    return job.state is State.QUEUED and job.retry_at is None
