"""The lease of a database: a row that names the active server, with an epoch that grows whenever another one takes it.

Each write of the active server reads the row in its own transaction and is refused once the epoch is another one. So
a server that stood still, or was cut off, writes nothing after another one has taken the lease. See decision 0047.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import (
    ColumnElement,
    Connection,
    Double,
    and_,
    bindparam,
    cast,
    delete,
    func,
    insert,
    or_,
    select,
    true,
    update,
)

from drumbeat.model.errors import StandbyError
from drumbeat.model.states import State
from drumbeat.server.database.schema import lease, servers
from drumbeat.server.loop.ownership import LEASE_TIMEOUT, LiveServer

UNFINISHED = tuple(state.value for state in State if not state.is_terminal)

STANDBY_TIMEOUT_S = 15.0
"""How long a server that stands by is listed after its last try to take the lease."""
_LEFT = -1
"""The epoch of a server that has given up the lease: no row has it."""

_LEASE = select(lease.c.epoch).where(lease.c.epoch == bindparam("mine"))
_FENCE = _LEASE.with_for_update(read=True, key_share=True)


@dataclass(frozen=True)
class LeaseRules:
    """How the servers over a database share its lease."""

    is_alone: bool = True
    """Whether no other server can be running, as a file lock says: then the lease is taken at once."""
    timeout: timedelta = LEASE_TIMEOUT
    now: Callable[[], float] | None = None
    """The seconds of the clock that leases expire by; None = the database's own clock."""


class Lease:
    """What one server process has of the lease. Each method is part of the caller's transaction."""

    def __init__(self, rules: LeaseRules, *, is_sqlite: bool) -> None:
        self.rules = rules
        self._is_sqlite = is_sqlite
        self.token = 0
        """Of this process among the servers of the database; 0 = it isn't registered yet."""
        self.epoch = 0
        """The epoch that this process has taken; 0 = it has taken none."""
        self._renewal = update(lease).where(lease.c.epoch == bindparam("mine")).values(expires_at=self._end)

    def register(self, connection: Connection, address: str, url: str) -> int:
        """Lists this process among the servers, or notes that it is still there. Returns its token."""
        mine = update(servers).where(servers.c.token == self.token).values(seen_at=self._now)
        if self.token and connection.execute(mine).rowcount:
            return self.token
        if connection.scalar(select(lease.c.epoch)) is None:
            connection.execute(insert(lease).values(epoch=0, holder=0, expires_at=0.0))
        row = insert(servers).values(started_at=datetime.now(UTC), address=address, url=url, seen_at=self._now)
        return connection.execute(row.returning(servers.c.token)).scalar_one()

    def take(self, connection: Connection, token: int) -> int | None:
        """Takes the lease for a server if it is free, and returns the new epoch; None = another server is active."""
        # The epoch is the table's key: PostgreSQL lets this wait for writes that have read it, and for nothing else.
        taken = update(lease).where(self._is_free).values(epoch=lease.c.epoch + 1, holder=token, expires_at=self._end)
        epoch = connection.scalar(taken.returning(lease.c.epoch))
        if epoch is not None:
            is_gone = servers.c.seen_at < self._now - STANDBY_TIMEOUT_S
            connection.execute(delete(servers).where(servers.c.token != token, is_gone))
        return epoch

    def renew(self, connection: Connection) -> None:
        """Lets the lease last longer. Raises StandbyError when another server has taken it."""
        if connection.execute(self._renewal, {"mine": self.epoch}).rowcount != 1:
            raise _standby()

    def leave(self, connection: Connection) -> None:
        """Gives up the lease, and takes this process off the list."""
        connection.execute(update(lease).where(lease.c.epoch == self.epoch).values(holder=0, expires_at=0.0))
        connection.execute(delete(servers).where(servers.c.token == self.token))

    def left(self) -> None:
        """From now on every write of this process is refused."""
        self.epoch = _LEFT

    def require(self, connection: Connection) -> None:
        """Raises StandbyError unless this server has the lease."""
        if connection.scalar(_LEASE, {"mine": self.epoch or _LEFT}) is None:
            raise _standby()

    def fence(self, connection: Connection) -> None:
        """Keeps other servers from taking the lease until the transaction ends.

        Raises StandbyError when one has taken it. A process that has never taken it passes: no server is active yet.
        """
        if self.epoch and connection.scalar(_FENCE, {"mine": self.epoch}) is None:
            raise _standby()

    def others(self, connection: Connection) -> list[LiveServer]:
        """Returns the other servers that can be called, the newest first."""
        is_active = and_(lease.c.holder == servers.c.token, ~self._is_free_by_time)
        is_waiting = servers.c.seen_at >= self._now - STANDBY_TIMEOUT_S
        columns = select(servers.c.token, servers.c.address, servers.c.doors, servers.c.url, is_active.label("active"))
        others = columns.where(servers.c.token != self.token, or_(is_active, is_waiting), servers.c.address != "")
        return [
            LiveServer(row.token, row.address, _agent_urls(row.doors), row.url, bool(row.active))
            for row in connection.execute(others.order_by(servers.c.token.desc()))
        ]

    def publish_agent_urls(self, connection: Connection, urls: Mapping[str, tuple[str, ...]]) -> None:
        """Writes where agents on other machines call this server."""
        connection.execute(update(servers).where(servers.c.token == self.token).values(doors=json.dumps(urls)))

    @property
    def _now(self) -> ColumnElement[float]:
        # SQLite's own clock is this machine's.
        clock = self.rules.now or (time.time if self._is_sqlite else None)
        # The clock is read when a statement is executed, not when it is constructed.
        return cast(_CLOCK, Double) if clock is None else bindparam(None, callable_=clock, type_=Double)

    @property
    def _end(self) -> ColumnElement[float]:
        return self._now + self.rules.timeout.total_seconds()

    @property
    def _is_free(self) -> ColumnElement[bool]:
        return true() if self.rules.is_alone else or_(lease.c.holder == 0, self._is_free_by_time)

    @property
    def _is_free_by_time(self) -> ColumnElement[bool]:
        # One that ends later than any that is taken now was taken before the clock was set back.
        return or_(lease.c.expires_at <= self._now, lease.c.expires_at > self._end + 1.0)


_CLOCK = func.extract("epoch", func.clock_timestamp())


def _agent_urls(text: str) -> dict[str, tuple[str, ...]]:
    return {name: tuple(urls) for name, urls in json.loads(text).items()}


def _standby() -> StandbyError:
    what = "another server has become the active one"
    return StandbyError(what, fix="Nothing is lost: ask that server. `drumbeat server status` names it.")
