"""What persons use and have used, and their quotas, in the tables."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from drumbeat.core.fair_share import HALF_LIFE, HeldSlots, PastUse, charged
from drumbeat.core.quotas import Quota, QuotaKind
from drumbeat.ports import HALF_LIFE_SETTING
from drumbeat.stores.sql.schema import jobs, past_use, quotas, reservations, settings


def all_quotas(connection: Connection) -> list[Quota]:
    """Every quota, by kind and name."""
    rows = connection.execute(select(quotas)).all()
    kept = [Quota(QuotaKind(row.kind), row.name, row.slots, row.gpus, row.waiting) for row in rows]
    return sorted(kept, key=lambda one: (one.kind, one.name))


def set_quota(connection: Connection, quota: Quota) -> None:
    """Writes a quota, over the one that there is; one without limits is removed."""
    this = (quotas.c.kind == quota.kind.value, quotas.c.name == quota.name)
    limits = {"slots": quota.slots, "gpus": quota.gpus, "waiting": quota.waiting}
    if quota.is_empty:
        connection.execute(delete(quotas).where(*this))
    elif connection.execute(update(quotas).where(*this).values(**limits)).rowcount == 0:
        connection.execute(insert(quotas).values(kind=quota.kind.value, name=quota.name, **limits))


def held_slots(connection: Connection, job: str = "", attempt: int = 0) -> list[HeldSlots]:
    """What attempts hold, by compute, job and attempt. job: only this attempt of it."""
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
    slots, gpus = sum(row.cpus for row in rows), sum(len(json.loads(row.gpus)) for row in rows)
    first = rows[0]
    return HeldSlots(first.compute, first.job, first.person, first.experiment, slots, gpus, first.since)


def all_past_use(connection: Connection) -> list[PastUse]:
    """What each person had used, by person."""
    rows = connection.execute(select(past_use)).all()
    return sorted((PastUse(row.person, row.amount, row.at) for row in rows), key=lambda one: one.person)


def charge(connection: Connection, job: str, attempt: int, at: datetime) -> None:
    """Adds what an attempt has used to the past use of its person. Its reservations are removed after it."""
    held = held_slots(connection, job, attempt)
    if not held:
        return
    person = held[0].person
    this = past_use.c.person == person
    row = connection.execute(select(past_use).where(this).with_for_update()).first()
    before = PastUse(person, row.amount, row.at) if row else PastUse(person, 0.0, at)
    after = charged(before, held, at, _half_life(connection))
    if row:
        connection.execute(update(past_use).where(this).values(amount=after.amount, at=after.at))
    else:
        connection.execute(insert(past_use).values(person=person, amount=after.amount, at=after.at))


def _half_life(connection: Connection) -> timedelta:
    value = connection.scalar(select(settings.c.value).where(settings.c.name == HALF_LIFE_SETTING))
    return timedelta(seconds=float(value)) if value else HALF_LIFE
