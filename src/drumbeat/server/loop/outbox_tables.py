"""Effects that are to be done."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from drumbeat.core.lifecycle.events import Effect, StopGang
from drumbeat.model import wire
from drumbeat.server.database.records import Change, PendingEffect, TakenEffect
from drumbeat.server.database.schema import outbox

# Constructing a statement costs more than executing it.
_ALL = select(outbox).order_by(outbox.c.id)
_REMOVE = delete(outbox).where(outbox.c.id.in_(bindparam("ids", expanding=True)))
_ADD = insert(outbox)


def pending(connection: Connection) -> list[PendingEffect]:
    """Every effect that isn't done, oldest first."""
    rows = connection.execute(_ALL)
    return [PendingEffect(row.id, row.job, row.attempt, row.n, read_effect(row.effect), row.tries) for row in rows]


@lru_cache(1024)  # The outbox is read many times until an effect is done.
def read_effect(text: str) -> Effect:
    """The effect in a row."""
    return wire.from_wire(Effect, json.loads(text))


def add(connection: Connection, change: Change) -> None:
    """Appends the change's effects, numbered on from those that the job has had."""
    rows = [
        {"job": change.job.name, "attempt": effect.attempt, "n": n, "tries": 0, "effect": wire.dumps(effect)}
        for n, effect in enumerate(change.effects, start=change.job.effects - len(change.effects))
    ]
    if rows:
        connection.execute(_ADD, rows)


def take(connection: Connection, taken: TakenEffect) -> bool:
    """Removes the `stop_gang` of nodes that are kept; returns False where there is none, or it waits no longer."""
    own = (outbox.c.job == taken.job, outbox.c.attempt == taken.attempt, outbox.c.n == taken.n)
    text = connection.execute(select(outbox.c.effect).where(*own)).scalar()
    effect = read_effect(text) if text is not None else None
    if not (isinstance(effect, StopGang) and effect.keep_s):
        return False
    return connection.execute(delete(outbox).where(*own, outbox.c.effect == text)).rowcount == 1


def claim_stop(connection: Connection, effect: int) -> bool:
    """Has a `stop_gang` wait no longer; returns whether it is there."""
    text = connection.execute(select(outbox.c.effect).where(outbox.c.id == effect)).scalar()
    pending_stop = read_effect(text) if text is not None else None
    if not isinstance(pending_stop, StopGang):
        return False
    if pending_stop.keep_s:
        at_once = wire.dumps(replace(pending_stop, keep_s=0.0))
        connection.execute(update(outbox).where(outbox.c.id == effect).values(effect=at_once))
    return True


def count_try(connection: Connection, effect: int) -> None:
    """One more try that failed."""
    connection.execute(update(outbox).where(outbox.c.id == effect).values(tries=outbox.c.tries + 1))


def remove(connection: Connection, effects: Iterable[int]) -> None:
    """Takes out what is done; what isn't there was done before."""
    if ids := list(effects):
        connection.execute(_REMOVE, {"ids": ids})
