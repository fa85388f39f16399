"""Messages about jobs that came to servers which don't hold them."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, delete, insert, select

from drumbeat.core.life.events import AgentSaid, CancelRequested, CheckpointSaved, ValueLogged
from drumbeat.core.life.job import Job
from drumbeat.ports import Letter, Message, is_for
from drumbeat.protocol import wire
from drumbeat.stores.sql.jobs import Remembered, load, no_job
from drumbeat.stores.sql.leases import UNFINISHED
from drumbeat.stores.sql.schema import inbox, jobs

_KINDS: dict[str, type[Message]] = {
    one.__name__: one for one in (AgentSaid, CancelRequested, CheckpointSaved, ValueLogged)
}


def post(connection: Connection, job: str, message: Message, remembered: Remembered) -> None:
    """Adds a message. The job's row is locked, so that none comes in behind the job's end. Raises NotFoundError."""
    state = connection.scalar(select(jobs.c.state).where(jobs.c.name == job).with_for_update())
    if state is None:
        raise no_job(job)
    if state in UNFINISHED or is_for(message, load(connection, job, remembered).job):
        row = {"job": job, "kind": type(message).__name__, "message": wire.dumps(message)}
        connection.execute(insert(inbox).values(**row))


def letters(connection: Connection, token: int) -> list[Letter]:
    """What waits for a server, oldest first."""
    mine = select(inbox).join(jobs, jobs.c.name == inbox.c.job).where(jobs.c.lease == token).order_by(inbox.c.id)
    return [Letter(row.id, row.job, read_message(row.kind, row.message)) for row in connection.execute(mine)]


def read_message(kind: str, text: str) -> Message:
    """The message in a row."""
    return wire.loads(_KINDS[kind], text)


def remove(connection: Connection, ids: Iterable[int]) -> None:
    """Takes out what was heard."""
    if heard := list(ids):
        connection.execute(delete(inbox).where(inbox.c.id.in_(heard)))


def clear(connection: Connection, ended: Iterable[Job]) -> None:
    """Throws away what nobody needs to hear any more of these jobs, which have ended."""
    if over := {job.name: job for job in ended}:
        waiting = connection.execute(select(inbox).where(inbox.c.job.in_(over)))
        heard = [row.id for row in waiting if not is_for(read_message(row.kind, row.message), over[row.job])]
        remove(connection, heard)
