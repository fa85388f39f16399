"""The table of removals, which records deleted jobs whose files have yet to be removed."""

from __future__ import annotations

from sqlalchemy import Connection, Table, delete, insert, select, update

from drumbeat.core.lifecycle.events import DROPPED_WITH_JOB
from drumbeat.model.errors import ConflictError
from drumbeat.server.database.records import Removal
from drumbeat.server.database.schema import (
    asset_uses,
    job_events,
    job_parts,
    jobs,
    outbox,
    past_holds,
    removals,
    reservations,
    submissions,
)
from drumbeat.server.jobs.tables import no_job
from drumbeat.server.loop import outbox_tables as effects
from drumbeat.server.loop.lease_tables import UNFINISHED

_OF_A_JOB: tuple[Table, ...] = (job_parts, job_events, outbox, reservations, past_holds, asset_uses, submissions)


def delete_job(connection: Connection, name: str, note: str) -> None:
    """See `SqlStore.delete_job`. Locks the job's row, so that no agent's report is applied meanwhile."""
    chosen = select(jobs.c.state, jobs.c.version).where(jobs.c.name == name).with_for_update()
    row = connection.execute(chosen).first()
    if row is None:
        if connection.scalar(select(removals.c.name).where(removals.c.name == name)) is None:
            raise no_job(name)
        return
    if row.state in UNFINISHED:
        raise ConflictError(f"job {name} is {row.state}", fix=f"Cancel it first: drumbeat cancel {name}")
    if any(one.job == name and not isinstance(one.effect, DROPPED_WITH_JOB) for one in effects.pending(connection)):
        what = f"job {name} has ended, and its nodes or outputs are still being finalized"
        raise ConflictError(what, fix=f"Try again in a moment; see why: drumbeat show {name}")
    for table in _OF_A_JOB:
        connection.execute(delete(table).where(table.c.job == name))
    connection.execute(delete(jobs).where(jobs.c.name == name))
    connection.execute(insert(removals).values(name=name, version=row.version, note=note, done=False))


def notes(connection: Connection, *, finished: bool) -> dict[str, str]:
    """Returns the notes of deleted jobs whose files may still exist, by name; with `finished`, of all deleted jobs."""
    chosen = select(removals.c.name, removals.c.note).order_by(removals.c.name)
    chosen = chosen if finished else chosen.where(~removals.c.done)
    return {row.name: row.note for row in connection.execute(chosen)}


def hold(connection: Connection, name: str) -> Removal | None:
    """Returns the unfinished removal of a deleted job, and locks its row until the transaction ends."""
    row = connection.execute(select(removals).where(removals.c.name == name).with_for_update()).first()
    return None if row is None or row.done else Removal(row.version, row.note)


def finish(connection: Connection, name: str, version: int) -> None:
    """Records that the files of a deleted job are removed."""
    chosen = removals.c.name == name, removals.c.version == version
    connection.execute(update(removals).where(*chosen).values(done=True))
