"""The queue of a compute as placement sees it: its jobs, and how their persons and experiments stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from drumbeat.core.lifecycle.job import Job
from drumbeat.core.scheduling.fair_share import HALF_LIFE, recent_use, use_that_counts
from drumbeat.core.scheduling.quota_balances import NO_BALANCES, Balances
from drumbeat.core.scheduling.quotas import Allowances, Payer
from drumbeat.core.scheduling.scheduler import Waiting
from drumbeat.server.database import SqlStore
from drumbeat.server.users.user_token import HALF_LIFE_SETTING


@dataclass(frozen=True)
class Queue:
    """Jobs that wait for slots of one compute, in the order in which they are served."""

    jobs: list[Waiting]
    balances: Balances = NO_BALANCES


def queue_of(jobs: Sequence[Job], store: SqlStore, now: datetime) -> Queue:
    """The queue of these jobs. Without quotas, and with the jobs of one person, nothing is read."""
    balances = _balances(jobs, store, now)
    waiting = [_waiting(job, balances, now) for job in jobs]
    return Queue(sorted(waiting, key=lambda one: one.rank), balances)


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


def _waiting(job: Job, balances: Balances, now: datetime) -> Waiting:
    limit = job.policy.timeout_s
    lasts = timedelta(seconds=limit + job.plan.grace_s) if limit is not None else None
    use = use_that_counts(balances.use.get(job.user, 0.0), now - job.submitted_at)
    payer = Payer(job.user, job.plan.experiment)
    lacks = [one.sentence for one in job.machine_faults]
    waiting = Waiting(job.name, job.need, job.policy.priority, job.submitted_at, lasts, job.avoided, payer)
    is_resized = job.need.is_elastic and job.attempt > 0
    waiting = replace(waiting, is_resized=is_resized, growth=job.growth, kept=job.kept)
    return replace(waiting, lacking=job.lacking, lack=lacks[-1] if lacks else "", use=use)
