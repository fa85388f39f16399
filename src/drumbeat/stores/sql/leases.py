"""Which server may write which job. A token lives as long as its row; who deletes the row takes what it held."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

from sqlalchemy import BindParameter, ColumnElement, Connection, and_, bindparam, delete, insert, or_, select, update

from drumbeat.ports import LiveServer, Ownership
from drumbeat.protocol.errors import StaleError
from drumbeat.protocol.states import State
from drumbeat.stores.sql.schema import LEFT, jobs, outbox, reservations, servers

UNFINISHED = tuple(state.value for state in State if not state.is_terminal)


_LIVE = (
    select(servers.c.token)
    .where(servers.c.token == bindparam("its_token"), servers.c.beats != LEFT)
    .with_for_update(read=True)
)


class Watch:
    """Since when each server's beats have stood still, by this process's own clock."""

    def __init__(self, monotonic: Callable[[], float], lease_timeout: timedelta) -> None:
        self._monotonic = monotonic
        self._silent_s = lease_timeout.total_seconds()
        self._heard: dict[int, tuple[int, float]] = {}
        self._lock = threading.Lock()

    def silent(self, beats: dict[int, int]) -> dict[int, int]:
        """Those of the servers (token to beats) that have been silent for too long."""
        with self._lock:
            now = self._monotonic()
            for token, count in beats.items():
                if self._heard.get(token, (None, 0.0))[0] != count:
                    self._heard[token] = (count, now)
            self._heard = {token: heard for token, heard in self._heard.items() if token in beats}
            return {
                token: n for token, n in beats.items() if n == LEFT or now - self._heard[token][1] >= self._silent_s
            }


def new_lease(connection: Connection, ownership: Ownership, address: str) -> int:
    """Registers a server and returns its token. A server that has the store to itself replaces every other one."""
    row = insert(servers).values(beats=0, started_at=datetime.now(UTC), address=address).returning(servers.c.token)
    token = connection.execute(row).scalar_one()
    if ownership is Ownership.ALONE:
        connection.execute(delete(servers).where(servers.c.token != token))
        _take_over(connection, token, jobs.c.lease != token)
    return token


def beat(connection: Connection, token: int) -> None:
    """Counts a beat."""
    this = update(servers).where(servers.c.token == token, servers.c.beats != LEFT)
    if connection.execute(this.values(beats=servers.c.beats + 1)).rowcount != 1:
        raise _replaced(token)


def leave(connection: Connection, token: int) -> None:
    """Marks the server as one that need not be waited for."""
    connection.execute(update(servers).where(servers.c.token == token).values(beats=LEFT))


def live(connection: Connection) -> list[LiveServer]:
    """The servers that can be called, the newest first."""
    there = select(servers.c.token, servers.c.address, servers.c.doors)
    there = there.where(servers.c.beats != LEFT, servers.c.address != "").order_by(servers.c.token.desc())
    return [
        LiveServer(row.token, row.address, {name: tuple(urls) for name, urls in json.loads(row.doors).items()})
        for row in connection.execute(there)
    ]


def show_doors(connection: Connection, token: int, doors: Mapping[str, tuple[str, ...]]) -> None:
    """Writes where agents call a server."""
    connection.execute(update(servers).where(servers.c.token == token).values(doors=json.dumps(doors)))


def require_live(connection: Connection, token: int) -> None:
    """Keeps the server from being replaced until the transaction ends. Raises StaleError when it has been."""
    if connection.scalar(_LIVE, {"its_token": token}) is None:
        raise _replaced(token)


def beats_of_others(connection: Connection, token: int) -> dict[int, int]:
    """Token to beats of every other server. Raises StaleError when this one has been replaced."""
    beats = {row.token: row.beats for row in connection.execute(select(servers.c.token, servers.c.beats))}
    if beats.pop(token, None) is None:
        raise _replaced(token)
    return beats


def replace_servers(connection: Connection, token: int, silent: dict[int, int]) -> list[str]:
    """Takes over from those servers (token to beats) that still haven't beaten; the jobs' names."""
    require_live(connection, token)
    gone = [
        other
        for other, beats in sorted(silent.items())
        if connection.execute(delete(servers).where(servers.c.token == other, servers.c.beats == beats)).rowcount
    ]
    return _take_over(connection, token, jobs.c.lease.in_(gone)) if gone else []


def is_free_for(token: int | BindParameter[int]) -> ColumnElement[bool]:
    """The condition that this server, or none that lives, holds the job."""
    return or_(jobs.c.lease == token, jobs.c.lease.not_in(select(servers.c.token)))


def _take_over(connection: Connection, token: int, theirs: ColumnElement[bool]) -> list[str]:
    """Finished jobs with nothing pending stay as they are: there can be very many."""
    pending = select(outbox.c.job).union(select(reservations.c.job))
    chosen = and_(theirs, or_(jobs.c.state.in_(UNFINISHED), jobs.c.name.in_(pending)))
    names = list(connection.scalars(select(jobs.c.name).where(chosen).order_by(jobs.c.number)))
    connection.execute(update(jobs).where(chosen).values(lease=token))
    return names


def _replaced(token: int) -> StaleError:
    return StaleError(f"server {token} has been replaced", fix="Nothing is lost: the newer server goes on.")
