"""Users and quotas in a simulation: the quotas that are set, and what must hold of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from drumbeat.core.lifecycle.job import Job
from drumbeat.core.scheduling.quotas import Quota, QuotaKind
from drumbeat.model.states import JobKind, Reason, State
from tests.support.simulation.backing import Sight
from tests.support.simulation.violation import require

USERS = ("ada", "bob", "eve")
NAMES = ("*", *USERS)
LIMITS = (None, 1, 2, 4, 6)

Key = tuple[QuotaKind, str]


def some_quota(a: int, b: int) -> Quota:
    """A quota of a user or of an experiment; every number means one."""
    kind = QuotaKind.EXPERIMENT if a % 7 == 6 else QuotaKind.USER
    name = ("*", "default")[b % 2] if kind is QuotaKind.EXPERIMENT else NAMES[b % 4]
    return Quota(kind, name, LIMITS[a % 5], None, LIMITS[b % 5] if a % 3 == 0 else None)


def enough(quota: Quota, jobs: Iterable[Job], most: int) -> Quota:
    """The same quota with room for the largest of the jobs, so that each can run. most: what there is."""
    needs = [most if job.kind is not JobKind.COMMAND else min(most, job.need.nodes * job.need.cpus) for job in jobs]
    return Quota(quota.kind, quota.name, max(needs, default=1) if quota.slots is not None else None)


@dataclass
class QuotaWitness:
    """Looks after each step at what users and experiments use, and counts it once more."""

    used: Counter[Key] = field(default_factory=Counter[Key])
    states: dict[str, State] = field(default_factory=dict[str, State])
    quotas: list[Quota] = field(default_factory=list[Quota])

    def check(self, sight: Sight) -> None:
        """No grant and no submission goes over a quota. One that is lowered below its use ends nothing."""
        jobs = {name: record.job for name, record in sight.records.items()}
        used = Counter(key for one in sight.held for key in _keys(jobs[one.job]) for _ in range(one.slot.cpus))
        if sight.quotas == self.quotas:
            for key in used:
                most = _limit(sight.quotas, key).slots
                is_over = most is not None and used[key] > max(most, self.used[key])
                require(not is_over, f"{key[1]} uses {used[key]} slots, and may use {most}")
            self._waiting(sight, jobs)
        for job in jobs.values():
            is_limited = any(one.slots is not None for one in sight.quotas)
            is_told = job.reason is not Reason.WAITING_FOR_QUOTA or any(key[1] in job.sentence for key in _keys(job))
            require(is_told or not is_limited, f"{job.name} waits for a quota that is not its own: {job.sentence}")
        self.used, self.quotas = used, list(sight.quotas)
        self.states = {name: job.state for name, job in jobs.items()}

    def _waiting(self, sight: Sight, jobs: dict[str, Job]) -> None:
        """Jobs that came back to the queue don't count: they were submitted before."""
        queued = [job for job in jobs.values() if job.state is State.QUEUED and not job.parent]
        came_back = [job for job in queued if self.states.get(job.name, State.QUEUED) is not State.QUEUED]
        waiting = Counter(key for job in queued if job not in came_back for key in _keys(job))
        for job in queued:
            for key in _keys(job) if job.name not in self.states else ():
                most = _limit(sight.quotas, key).waiting
                require(most is None or waiting[key] <= most, f"{waiting[key]} jobs of {key[1]} wait, of {most}")


def _keys(job: Job) -> tuple[Key, Key]:
    return (QuotaKind.USER, job.user), (QuotaKind.EXPERIMENT, job.plan.experiment)


def _limit(quotas: list[Quota], key: Key) -> Quota:
    """What holds for a user or experiment: its own quota stands in place of everyone's."""
    of_kind = {one.name: one for one in quotas if one.kind is key[0]}
    return of_kind.get(key[1]) or of_kind.get("*") or Quota(*key)
