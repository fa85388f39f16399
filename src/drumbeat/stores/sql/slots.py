"""The slots that attempts hold, and the count by which two servers never give the same ones away."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from drumbeat.core.resource_needs import Slot
from drumbeat.ports import ALL_COMPUTES, Change, Reservation
from drumbeat.protocol.errors import ConflictError
from drumbeat.stores.sql.schema import bookings, reservations


def reserved(connection: Connection, compute: str) -> list[Reservation]:
    """Who holds which slots of a compute."""
    held = reservations.c
    ordered = select(reservations).where(held.compute == compute).order_by(held.job, held.attempt, held.node)
    return [Reservation(row.compute, row.job, row.attempt, _slot(row)) for row in connection.execute(ordered)]


def booked(connection: Connection, compute: str) -> int:
    """How often slots of the compute changed hands."""
    return connection.scalar(select(bookings.c.count).where(bookings.c.compute == compute)) or 0


def rebook(connection: Connection, changes: Iterable[Change]) -> None:
    """Gives back and takes what the changes say. Raises ConflictError when a `booked` has been overtaken.

    The counts come last and in the order of their names: whoever waits for one holds no other that anybody waits for.
    """
    changes = list(changes)
    freed = [one for change in changes for one in _release(connection, change.job.name, change.release)]
    for change in changes:
        _reserve(connection, change)
    taken = {change.job.plan.compute: change.booked for change in changes if change.reserve}
    seen_in_all = next((change.booked_in_all for change in changes if change.reserve), None)
    for compute in sorted({*freed, *taken}):
        _count(connection, compute, taken.get(compute))
    if freed or taken:
        count_in_all(connection, seen_in_all)


def give_back(connection: Connection, job: str, attempt: int) -> None:
    """Gives back what an attempt holds; twice is the same as once."""
    freed = sorted(set(_release(connection, job, (attempt,))))
    for compute in freed:
        _count(connection, compute, None)
    if freed:
        count_in_all(connection)


def count_in_all(connection: Connection, seen: int | None = None) -> None:
    """Counts a booking, or a change of quotas, for all computes. It comes last. Raises ConflictError as `rebook`."""
    _count(connection, ALL_COMPUTES, seen)


def _count(connection: Connection, compute: str, seen: int | None) -> None:
    this = update(bookings).where(bookings.c.compute == compute)
    guarded = this if seen is None else this.where(bookings.c.count == seen)
    if connection.execute(guarded.values(count=bookings.c.count + 1)).rowcount:
        return
    if seen:
        raise ConflictError(f"slots of {compute} were booked by somebody else in between")
    connection.execute(insert(bookings).values(compute=compute, count=1))


def _reserve(connection: Connection, change: Change) -> None:
    """The change's slots, for the job's attempt. A slot that it has already raises IntegrityError."""
    job = change.job
    rows = [
        {
            "compute": job.plan.compute,
            "job": job.name,
            "attempt": job.attempt,
            "node": slot.node,
            "machine": slot.machine,
            "cpus": slot.cpus,
            "gpus": json.dumps(slot.gpus),
            "since": change.at,
        }
        for slot in change.reserve
    ]
    if rows:
        connection.execute(insert(reservations), rows)


def _release(connection: Connection, job: str, attempts: Iterable[int]) -> list[str]:
    """The computes whose slots those attempts held."""
    held, gone = reservations.c, list(attempts)
    if not gone:
        return []
    return list(
        connection.scalars(delete(reservations).where(held.job == job, held.attempt.in_(gone)).returning(held.compute))
    )


def _slot(row: Row[*tuple[Any, ...]]) -> Slot:
    return Slot(row.node, row.machine, row.cpus, tuple(json.loads(row.gpus)))
