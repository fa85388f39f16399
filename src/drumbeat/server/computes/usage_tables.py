"""What users use and have used, and their quotas, in the tables."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from drumbeat.core.scheduling.fair_share import HALF_LIFE, HeldSlots, PastUse, charged
from drumbeat.core.scheduling.quotas import Quota, QuotaKind
from drumbeat.core.scheduling.resource_needs import Slot
from drumbeat.core.use_times import Hold
from drumbeat.model.errors import NotFoundError
from drumbeat.server.computes.slot_tables import slot_of
from drumbeat.server.database.schema import capacities, jobs, past_holds, past_use, reservations, settings
from drumbeat.server.resources import tables as resources
from drumbeat.server.resources.records import Resource
from drumbeat.server.users.user_token import HALF_LIFE_SETTING

QUOTA = "quota"
"""The kind of quotas in the table of resources."""

_NAMES_AT_ONCE = 500


@dataclass(frozen=True)
class HeldByAttempt:
    """What one attempt holds of a compute."""

    attempt: int
    held: HeldSlots
    slots: tuple[Slot, ...]


@dataclass(frozen=True)
class Capacity:
    """What the usable machines of a compute had together, from a time on."""

    compute: str
    at: datetime
    slots: int
    gpus: int


def all_quotas(connection: Connection) -> list[Quota]:
    """Returns every quota, by kind and name."""
    quotas = (
        Quota(QuotaKind(kind), name, **one.document)
        for one in resources.versions(connection, QUOTA, None)
        for kind, _, name in [one.name.partition("/")]
    )
    return sorted(quotas, key=lambda one: (one.kind, one.name))


def set_quota(connection: Connection, quota: Quota) -> None:
    """Writes or replaces a quota. One without limits is removed."""
    name = f"{quota.kind}/{quota.name}"
    limits = {"slots": quota.slots, "gpus": quota.gpus, "waiting": quota.waiting}
    if not quota.is_empty:
        resources.put(connection, Resource(QUOTA, name, document=limits))
    else:
        with suppress(NotFoundError):
            resources.remove(connection, QUOTA, name, "")


def held_slots(connection: Connection, job: str = "", attempt: int = 0) -> list[HeldSlots]:
    """Returns the slots that attempts hold, by compute, job and attempt. job: only this attempt of it."""
    held = reservations.c
    columns = select(
        held.compute, held.job, held.attempt, held.cpus, held.gpus, held.since, jobs.c.person, jobs.c.experiment
    )
    chosen = columns.join(jobs, jobs.c.name == held.job).order_by(held.compute, held.job, held.attempt)
    if job:
        chosen = chosen.where(held.job == job, held.attempt == attempt)
    rows = connection.execute(chosen).all()
    return [_held(list(group)) for _, group in groupby(rows, key=lambda row: (row.compute, row.job, row.attempt))]


def _held(rows: Sequence[Row[*tuple[Any, ...]]]) -> HeldSlots:
    slots, gpus = sum(row.cpus for row in rows), sum(_gpu_count(row.gpus) for row in rows)
    first = rows[0]
    return HeldSlots(first.compute, first.job, first.person, first.experiment, slots, gpus, first.since)


@lru_cache(1 << 14)  # All are read again whenever one changes.
def _gpu_count(text: str) -> int:
    return len(json.loads(text))


def held_by_jobs(connection: Connection, names: Collection[str] | None = None) -> dict[str, list[HeldByAttempt]]:
    """Returns what the attempts of jobs hold, by job. names: of these jobs; None = of all."""
    held = reservations.c
    columns = select(reservations, jobs.c.person, jobs.c.experiment)
    chosen = columns.join(jobs, jobs.c.name == held.job).order_by(held.job, held.attempt, held.node)
    if names is not None:
        chosen = chosen.where(held.job.in_(names))
    rows = connection.execute(chosen).all()
    by_job: dict[str, list[HeldByAttempt]] = {}
    for (job, attempt, _), group in groupby(rows, key=lambda row: (row.job, row.attempt, row.compute)):
        some = list(group)
        by_job.setdefault(job, []).append(HeldByAttempt(attempt, _held(some), tuple(slot_of(row) for row in some)))
    return by_job


def holds(connection: Connection, names: Sequence[str]) -> dict[str, list[Hold]]:
    """Returns what the attempts of these jobs hold, and held before, by job."""
    by_job: dict[str, list[Hold]] = {}
    for start in range(0, len(names), _NAMES_AT_ONCE):
        some = names[start : start + _NAMES_AT_ONCE]
        for row in connection.execute(select(past_holds).where(past_holds.c.job.in_(some)).order_by(past_holds.c.id)):
            by_job.setdefault(row.job, []).append(Hold(row.attempt, row.slots, row.gpus, row.since, row.until))
        for job, attempts in held_by_jobs(connection, some).items():
            by_job.setdefault(job, []).extend(
                Hold(one.attempt, one.held.slots, one.held.gpus, one.held.since) for one in attempts
            )
    return by_job


def note_capacity(connection: Connection, compute: str, at: datetime, slots: int, gpus: int) -> None:
    """Writes what a compute has from now on."""
    connection.execute(insert(capacities).values(compute=compute, at=at, slots=slots, gpus=gpus))


def all_capacities(connection: Connection) -> list[Capacity]:
    """Returns what computes had, and from when on, oldest first."""
    rows = connection.execute(select(capacities).order_by(capacities.c.id))
    return [Capacity(row.compute, row.at, row.slots, row.gpus) for row in rows]


def all_past_use(connection: Connection) -> list[PastUse]:
    """What each user had used, by user."""
    rows = connection.execute(select(past_use)).all()
    return sorted((PastUse(row.person, row.amount, row.at) for row in rows), key=lambda one: one.user)


def charge(connection: Connection, job: str, attempt: int, at: datetime) -> None:
    """Adds what an attempt has used to the past use of its user. Its reservations are removed after it."""
    held = held_slots(connection, job, attempt)
    if not held:
        return
    connection.execute(
        insert(past_holds),
        [
            {"job": job, "attempt": attempt, "slots": one.slots, "gpus": one.gpus, "since": one.since, "until": at}
            for one in held
        ],
    )
    user = held[0].user
    this = past_use.c.person == user
    row = connection.execute(select(past_use).where(this).with_for_update()).first()
    before = PastUse(user, row.amount, row.at) if row else PastUse(user, 0.0, at)
    after = charged(before, held, at, _half_life(connection))
    if row:
        connection.execute(update(past_use).where(this).values(amount=after.amount, at=after.at))
    else:
        connection.execute(insert(past_use).values(person=user, amount=after.amount, at=after.at))


def _half_life(connection: Connection) -> timedelta:
    value = connection.scalar(select(settings.c.value).where(settings.c.name == HALF_LIFE_SETTING))
    return timedelta(seconds=float(value)) if value else HALF_LIFE
