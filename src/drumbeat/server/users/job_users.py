"""Whose jobs are: contributors change what is their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from drumbeat.model.errors import ForbiddenError, NotFoundError
from drumbeat.model.plurals import counted
from drumbeat.model.principal import Principal, Role, require_own
from drumbeat.server.jobs.job_filter import JobFilter
from drumbeat.server.loop.loop import Loop


class JobUsers:
    """The users of the jobs of all servers over one store. Thread-safe; its methods may ask the store.

    names_in_jobs: returns the names by which jobs call an experiment.
    """

    def __init__(self, loop: Loop, names_in_jobs: Callable[[str], tuple[str, ...]]) -> None:
        self._loop, self._names_in_jobs = loop, names_in_jobs

    def user_of(self, job: str) -> str:
        """Returns whose a job is, "" = of no known user, or there is no such job."""
        try:
            return self._loop.record(job).job.user
        except NotFoundError:
            return ""

    def require_own(self, principal: Principal, job: str) -> None:
        """Raises ForbiddenError unless the job is the principal's to change. One that doesn't exist is let pass."""
        if principal.role is Role.OWNER:
            return
        try:
            user = self._loop.record(job).job.user
        except NotFoundError:
            return
        require_own(principal, user, f"job {job}", own="their own jobs")

    def require_own_experiment(self, principal: Principal, name: str) -> None:
        """Raises ForbiddenError unless all jobs of an experiment are the principal's."""
        if principal.role is Role.OWNER:
            return
        every = JobFilter(experiments=self._names_in_jobs(name), is_archived=None)
        others = self._count(every) - self._count(replace(every, user=principal.user))
        if others:
            what = f"experiment {name} has {counted(others, 'job')} of other users, and {principal.user} is a"
            fix = "Ask an owner of the server."
            raise ForbiddenError(f"{what} {principal.role} here", where=f"experiment {name}", fix=fix)

    def _count(self, chosen: JobFilter) -> int:
        return sum(self._loop.store.count_jobs(chosen).values())
