"""The queue of a compute as placement sees it: its jobs, and how their persons and experiments stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

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


WaitingByJob = dict[str, tuple[Job, QueuedJob]]
"""What was made of jobs before, by name."""


def queue_of(jobs: Sequence[Job], store: SqlStore, now: datetime, memory: WaitingByJob | None = None) -> Queue:
    """The queue of these jobs. Without quotas, and with the jobs of one person, nothing is read.

    memory: is filled with what is made of each job, for the next time.
    """
    balances, jobs_before = _balances(jobs, store, now), WaitingByJob() if memory is None else memory
    use = {user: round(amount, 2) for user, amount in balances.use.items()}
    patient_since = now - MAX_AGE

    def rank(waiting: QueuedJob) -> tuple[object, ...]:
        counts = waiting.submitted_at > patient_since
        return waiting.rank(use.get(waiting.payer.user, 0.0) if counts else 0.0)

    return Queue(sorted((_waiting(job, jobs_before) for job in jobs), key=rank), balances)


def half_life_of(store: SqlStore) -> timedelta:
    """The half-life of past use, as it is set."""
    value = store.setting(HALF_LIFE_SETTING)
    return timedelta(seconds=float(value)) if value else HALF_LIFE


def _balances(jobs: Sequence[Job], store: SqlStore, now: datetime) -> Balances:
    quotas = store.quotas() if jobs else []
    has_others = len({job.user for job in jobs}) > 1
    if not quotas and not has_others:
        return NO_BALANCES
    held, half_life = store.held_slots(), half_life_of(store)
    use = recent_use(store.past_use(), held, now, half_life) if has_others else {}
    return Balances(Allowances(tuple(quotas), tuple(held)), use, half_life)


def _waiting(job: Job, memory: WaitingByJob) -> QueuedJob:
    before = memory.get(job.name)
    if before and before[0] is job:
        return before[1]
    memory[job.name] = job, _made(job)
    return memory[job.name][1]


def _made(job: Job) -> QueuedJob:
    limit = job.policy.timeout_s
    lasts = timedelta(seconds=limit + job.plan.grace_s) if limit is not None else None
    payer = Payer(job.user, job.plan.experiment)
    lacks = [one.sentence for one in job.machine_faults]
    waiting = QueuedJob(job.name, job.need, job.policy.priority, job.submitted_at, lasts, job.avoided, payer)
    is_resized = job.need.is_elastic and job.attempt > 0
    waiting = replace(waiting, is_resized=is_resized, growth=job.growth, kept=job.kept)
    return replace(waiting, lacking=job.lacking, lack=lacks[-1] if lacks else "")
