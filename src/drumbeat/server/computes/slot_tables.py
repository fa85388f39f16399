"""The slots that attempts hold."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select

from drumbeat.core.scheduling.resource_needs import Slot
from drumbeat.server.database.records import Change, Reservation
from drumbeat.server.database.schema import reservations


def reserved(connection: Connection, compute: str) -> list[Reservation]:
    """Who holds which slots of a compute."""
    held = reservations.c
    ordered = select(reservations).where(held.compute == compute).order_by(held.job, held.attempt, held.node)
    return [Reservation(row.compute, row.job, row.attempt, _slot(row)) for row in connection.execute(ordered)]


def rebook(connection: Connection, changes: Iterable[Change]) -> None:
    """Gives back and takes what the changes say."""
    changes = list(changes)
    for change in changes:
        release(connection, change.job.name, change.release)
    for change in changes:
        _reserve(connection, change)


def release(connection: Connection, job: str, attempts: Iterable[int]) -> None:
    """Gives back what attempts of a job hold. Idempotent."""
    if gone := list(attempts):
        held = reservations.c
        connection.execute(delete(reservations).where(held.job == job, held.attempt.in_(gone)))


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


def _slot(row: Row[*tuple[Any, ...]]) -> Slot:
    return Slot(row.node, row.machine, row.cpus, tuple(json.loads(row.gpus)))
