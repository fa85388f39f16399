"""Effects that are to be done, and the slots that attempts hold."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from drumbeat.core.events import Effect
from drumbeat.core.job import Slot
from drumbeat.ports import Change, PendingEffect, Reservation
from drumbeat.protocol import wire
from drumbeat.stores.sql.schema import outbox, reservations


def pending(connection: Connection) -> list[PendingEffect]:
    """Every effect that isn't done, oldest first."""
    return [
        PendingEffect(row.id, row.job, row.attempt, row.n, wire.from_wire(Effect, json.loads(row.effect)), row.tries)
        for row in connection.execute(select(outbox).order_by(outbox.c.id))
    ]


def add(connection: Connection, change: Change) -> None:
    """Appends the change's effects, numbered on from those that the job has had."""
    rows = [
        {"job": change.job.name, "attempt": effect.attempt, "n": n, "tries": 0, "effect": wire.dumps(effect)}
        for n, effect in enumerate(change.effects, start=change.job.effects - len(change.effects))
    ]
    if rows:
        connection.execute(insert(outbox), rows)


def count_try(connection: Connection, effect: int) -> None:
    """One more try that failed."""
    connection.execute(update(outbox).where(outbox.c.id == effect).values(tries=outbox.c.tries + 1))


def remove(connection: Connection, effects: Iterable[int]) -> None:
    """Takes out what is done; what isn't there was done before."""
    if ids := list(effects):
        connection.execute(delete(outbox).where(outbox.c.id.in_(ids)))


def reserved(connection: Connection, compute: str) -> list[Reservation]:
    """Who holds which slots of a compute."""
    held = reservations.c
    ordered = select(reservations).where(held.compute == compute).order_by(held.job, held.attempt, held.node)
    return [Reservation(row.compute, row.job, row.attempt, _slot(row)) for row in connection.execute(ordered)]


def reserve(connection: Connection, change: Change) -> None:
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
        }
        for slot in change.reserve
    ]
    if rows:
        connection.execute(insert(reservations), rows)


def release(connection: Connection, job: str, attempts: Iterable[int]) -> None:
    """Gives back what those attempts hold; twice is the same as once."""
    if gone := list(attempts):
        held = reservations.c
        connection.execute(delete(reservations).where(held.job == job, held.attempt.in_(gone)))


def _slot(row: Row[*tuple[Any, ...]]) -> Slot:
    return Slot(row.node, row.machine, row.cpus, tuple(json.loads(row.gpus)))
