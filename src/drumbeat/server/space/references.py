"""The references between jobs, assets and snapshots, which decide what may be removed."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from drumbeat.core import deletion_rules
from drumbeat.core.deletion_rules import AssetNeeds, JobNeeds
from drumbeat.model.errors import NotFoundError
from drumbeat.server.database import SqlStore
from drumbeat.server.jobs.job_filter import JobFilter

PAGE = 500
"""Number of jobs that are read at a time."""


@dataclass(frozen=True)
class References:
    """The references of all jobs and registered versions."""

    jobs: tuple[JobNeeds, ...]
    assets: tuple[AssetNeeds, ...]

    def needs(self, name: str) -> JobNeeds:
        """Returns the references of a job that exists."""
        return next(one for one in self.jobs if one.name == name)

    def without(self, names: Collection[str]) -> References:
        """Returns the references without these jobs."""
        return replace(self, jobs=tuple(one for one in self.jobs if one.name not in names))


class ReferenceReader:
    """Reads the references from a store."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store

    def all(self) -> References:
        """Reads every job and every registered version."""
        return References(tuple(self.jobs()), self.assets())

    def jobs(self, until: Collection[str] = ()) -> Iterator[JobNeeds]:
        """Yields the jobs, newest first, up to the first one with one of those names."""
        after: str | None = None
        seen: set[str] = set()
        while True:
            try:
                page = self._store.jobs(JobFilter(is_archived=None, limit=PAGE, after=after))
            except NotFoundError:  # The last job of the previous page was deleted meanwhile.
                after = None
                continue
            for record in page:
                if record.job.name in until:
                    return
                if record.job.name not in seen:
                    seen.add(record.job.name)
                    yield deletion_rules.needs_of_job(record.job)
            if len(page) < PAGE:
                return
            after = page[-1].job.name

    def assets(self) -> tuple[AssetNeeds, ...]:
        """Returns all registered versions, and the schedules."""
        kinds = ("data", "model", "environment", "component", "schedule")
        versions = [one for kind in kinds for one in self._store.resources(kind)]
        return tuple(deletion_rules.needs_of_asset(one.kind, one.name, one.version, one.document) for one in versions)
