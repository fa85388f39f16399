"""The queue of a compute as placement sees it: its jobs, and how their users and experiments stand."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby
from operator import itemgetter

from drumbeat.core.lifecycle.job import Job
from drumbeat.core.scheduling.fair_share import HALF_LIFE, MAX_AGE, recent_use
from drumbeat.core.scheduling.queued_job import QueuedJob
from drumbeat.core.scheduling.quota_balances import NO_BALANCES, Balances
from drumbeat.core.scheduling.quotas import Allowances, Payer
from drumbeat.server.database import SqlStore
from drumbeat.server.users.user_token import HALF_LIFE_SETTING


@dataclass(frozen=True)
class Queue:
    """Jobs that wait for slots of one compute, in the order in which they are served."""

    jobs: list[QueuedJob]
    balances: Balances = NO_BALANCES


class WaitingJobs:
    """The jobs that wait for slots of one compute, kept in order while they come and go."""

    def __init__(self) -> None:
        self._by_standing: dict[tuple[bool, int, str], list[tuple[datetime, str, QueuedJob]]] = {}
        """By what the place in the queue depends on, the oldest first."""
        self._users: Counter[str] = Counter()

    def __bool__(self) -> bool:
        return bool(self._by_standing)

    @property
    def users(self) -> int:
        """How many users wait."""
        return len(self._users)

    def add(self, job: QueuedJob) -> None:
        """Adds a job."""
        insort(self._by_standing.setdefault(job.standing, []), (job.submitted_at, job.job, job), key=_AGE)
        self._users[job.payer.user] += 1

    def remove(self, job: QueuedJob) -> None:
        """Removes a job that was added."""
        some = self._by_standing[job.standing]
        del some[bisect_left(some, (job.submitted_at, job.job), key=_AGE)]
        if not some:
            del self._by_standing[job.standing]
        self._users[job.payer.user] -= 1
        self._users += Counter()  # Without those that have none.

    def in_order(self, use: Mapping[str, float], now: datetime) -> list[QueuedJob]:
        """The jobs in the order in which they are served, as `QueuedJob.rank` has it. use: by user."""
        runs: list[tuple[tuple[bool, int, float], list[tuple[datetime, str, QueuedJob]]]] = []
        for (is_not_resized, priority, user), some in self._by_standing.items():
            patient = bisect_right(some, now - MAX_AGE, key=itemgetter(0))
            runs.append(((is_not_resized, priority, 0.0), some[:patient]))
            runs.append(((is_not_resized, priority, round(use.get(user, 0.0), 2)), some[patient:]))
        ordered: list[QueuedJob] = []
        for _, group in groupby(sorted(runs, key=itemgetter(0)), key=itemgetter(0)):
            those = [entry for _, run in group for entry in run]
            ordered += [job for *_, job in sorted(those, key=_AGE)]
        return ordered


_AGE = itemgetter(0, 1)


def queue_of(jobs: Sequence[Job], store: SqlStore, now: datetime) -> Queue:
    """The queue of these jobs. Without quotas, and with the jobs of one user, nothing is read."""
    waiting = WaitingJobs()
    for job in jobs:
        waiting.add(queued_job(job))
    return queue_in_order(waiting, store, now)


def queue_in_order(waiting: WaitingJobs, store: SqlStore, now: datetime) -> Queue:
    """The queue of the jobs that wait, and how their users and experiments stand."""
    balances = _balances(waiting, store, now)
    return Queue(waiting.in_order(balances.use, now), balances)


def half_life_of(store: SqlStore) -> timedelta:
    """The half-life of past use, as it is set."""
    value = store.setting(HALF_LIFE_SETTING)
    return timedelta(seconds=float(value)) if value else HALF_LIFE


def _balances(waiting: WaitingJobs, store: SqlStore, now: datetime) -> Balances:
    quotas = store.quotas() if waiting else []
    has_others = waiting.users > 1
    if not quotas and not has_others:
        return NO_BALANCES
    held, half_life = store.held_slots(), half_life_of(store)
    use = recent_use(store.past_use(), held, now, half_life) if has_others else {}
    return Balances(Allowances(tuple(quotas), tuple(held)), use, half_life)


def queued_job(job: Job) -> QueuedJob:
    """What placement knows of a job."""
    limit = job.policy.timeout_s
    lasts = timedelta(seconds=limit + job.plan.grace_s) if limit is not None else None
    payer = Payer(job.user, job.plan.experiment)
    lacks = [one.sentence for one in job.machine_faults]
    waiting = QueuedJob(job.name, job.need, job.policy.priority, job.submitted_at, lasts, job.avoided, payer)
    is_resized = job.need.is_elastic and job.attempt > 0
    waiting = replace(waiting, is_resized=is_resized, growth=job.growth, kept=job.kept)
    return replace(waiting, lacking=job.lacking, lack=lacks[-1] if lacks else "")
