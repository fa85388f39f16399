"""Messages about jobs that came to servers which don't hold them."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, delete, insert, select

from drumbeat.core.events import AgentSaid, CancelRequested
from drumbeat.ports import Letter, Message
from drumbeat.protocol import wire
from drumbeat.stores.sql.jobs import no_job
from drumbeat.stores.sql.leases import UNFINISHED
from drumbeat.stores.sql.schema import inbox, jobs

_KINDS: dict[str, type[AgentSaid | CancelRequested]] = {one.__name__: one for one in (AgentSaid, CancelRequested)}


def post(connection: Connection, job: str, message: Message) -> None:
    """Adds a message. The job's row is locked, so that none comes in behind the job's end. Raises NotFoundError."""
    state = connection.scalar(select(jobs.c.state).where(jobs.c.name == job).with_for_update())
    if state is None:
        raise no_job(job)
    if state in UNFINISHED:
        row = {"job": job, "kind": type(message).__name__, "message": wire.dumps(message)}
        connection.execute(insert(inbox).values(**row))


def letters(connection: Connection, token: int) -> list[Letter]:
    """What waits for a server, oldest first."""
    mine = select(inbox).join(jobs, jobs.c.name == inbox.c.job).where(jobs.c.lease == token).order_by(inbox.c.id)
    return [Letter(row.id, row.job, wire.loads(_KINDS[row.kind], row.message)) for row in connection.execute(mine)]


def remove(connection: Connection, ids: Iterable[int]) -> None:
    """Takes out what was heard."""
    if heard := list(ids):
        connection.execute(delete(inbox).where(inbox.c.id.in_(heard)))


def clear(connection: Connection, names: Iterable[str]) -> None:
    """Throws away what nobody needs to hear any more: these jobs have ended."""
    if over := list(names):
        connection.execute(delete(inbox).where(inbox.c.job.in_(over)))
