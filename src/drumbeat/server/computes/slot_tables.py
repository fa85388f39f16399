"""The table of slots that attempts hold."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, insert, select

from drumbeat.core.scheduling.resource_needs import Slot
from drumbeat.server.database.records import Change, Reservation
from drumbeat.server.database.schema import reservations

_HELD = reservations.c

# Constructing a statement costs more than executing it.
_RESERVED = (
    select(reservations).where(_HELD.compute == bindparam("its_compute")).order_by(_HELD.job, _HELD.attempt, _HELD.node)
)
_RELEASE = delete(reservations).where(
    _HELD.job == bindparam("its_job"), _HELD.attempt.in_(bindparam("attempts", expanding=True))
)
_RESERVE = insert(reservations)


def reserved(connection: Connection, compute: str) -> list[Reservation]:
    """Returns the reservations on a compute."""
    rows = connection.execute(_RESERVED, {"its_compute": compute})
    return [Reservation(row.compute, row.job, row.attempt, slot_of(row)) for row in rows]


def rebook(connection: Connection, changes: Iterable[Change]) -> None:
    """Releases and reserves slots for these changes."""
    changes = list(changes)
    for change in changes:
        release(connection, change.job.name, change.release)
    for change in changes:
        _reserve(connection, change)


def release(connection: Connection, job: str, attempts: Iterable[int]) -> None:
    """Releases the slots of attempts of a job. Idempotent."""
    if gone := list(attempts):
        connection.execute(_RELEASE, {"its_job": job, "attempts": gone})


def _reserve(connection: Connection, change: Change) -> None:
    """Reserves a change's slots for the job's attempt. Raises IntegrityError for a slot that it already holds."""
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
        connection.execute(_RESERVE, rows)


def slot_of(row: Row[*tuple[Any, ...]]) -> Slot:
    """Returns the slot of a reservation."""
    return Slot(row.node, row.machine, row.cpus, _gpus(row.gpus))


@lru_cache(1 << 14)  # All are read again whenever one changes.
def _gpus(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text))
