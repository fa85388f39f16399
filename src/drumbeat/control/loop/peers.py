"""The other servers over the same store: who holds which job, and how a message reaches the server that does.

Each server decides for the jobs that it holds, and reads the others' from the store. A message about a job that another
server holds waits in the store's inbox until the holder's next look. See decision 0009.

After how long a silent server's jobs are taken over: `LEASE_TIMEOUT` in `ports/leases.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from drumbeat.control.bus import job_topic
from drumbeat.core.life.events import AgentSaid, PublishOutputs
from drumbeat.ports import ALL_COMPUTES, LEASE_TIMEOUT, Head, Letter, Ownership, Record
from drumbeat.protocol.errors import StaleError
from drumbeat.protocol.fault_points import faultpoint
from drumbeat.protocol.states import State
from drumbeat.stores.sql import SqlStore

if TYPE_CHECKING:
    from drumbeat.control.loop.loop import Loop

INBOX_BUDGET_S = 1.0
"""About how long one look may spend on the inbox: the lease has to be kept in between."""

FRESH_S = LEASE_TIMEOUT.total_seconds() / 3
"""How long after a heartbeat no other server can hold this server's jobs."""

AgentHeard = Callable[[str, int, int], None]
"""Is called with job, attempt and node of each agent that called another server."""


class Peers(Protocol):
    """How the loop treats the other servers over its store."""

    ownership: Ownership
    """Whether this server has the store to itself."""

    def first_jobs(self, store: SqlStore) -> list[Record]:
        """Jobs that are this server's as soon as it has its lease."""
        ...

    def unfinished(self, own: dict[str, Record], store: SqlStore) -> dict[str, Record]:
        """Every unfinished job by name, whichever server holds it: all servers see one queue."""
        ...

    def is_memory_current(self, silent_s: float) -> bool:
        """Whether the jobs in memory are current when the last heartbeat is this long ago."""
        ...

    def holds(self, name: str, own: Mapping[str, Record]) -> bool:
        """Whether a job is this server's, while its memory is current."""
        ...

    def look(self, loop: Loop) -> None:
        """Is called in every tick of the loop, on its thread."""
        ...

    def when_replaced(self) -> Peers:
        """The peers of a server that another one has replaced."""
        ...


def peers_of(ownership: Ownership, heard: AgentHeard) -> Peers:
    """The other servers over the store of a server, none where it has the store to itself."""
    return NoPeers(heard) if ownership is Ownership.ALONE else PeerServers(heard)


class NoPeers:
    """No other server is over the store: memory is always current, and every job is this server's."""

    ownership = Ownership.ALONE

    def __init__(self, heard: AgentHeard) -> None:
        self._heard = heard

    def first_jobs(self, store: SqlStore) -> list[Record]:
        return store.unfinished()

    def unfinished(self, own: dict[str, Record], store: SqlStore) -> dict[str, Record]:
        del store
        return own

    def is_memory_current(self, silent_s: float) -> bool:
        del silent_s
        return True

    def holds(self, name: str, own: Mapping[str, Record]) -> bool:
        del name, own
        return True

    def look(self, loop: Loop) -> None:
        """Does nothing."""

    def when_replaced(self) -> Peers:
        """Another server is over the store after all, and holds this one's jobs.

        From now on this server must read its inbox, too, and read again what it lost of its own jobs. Two servers that
        both had the store to themselves are safe: every write carries a lease.
        """
        return PeerServers(self._heard)


class PeerServers:
    """Other servers may be over the store, and take this one's jobs when it is silent."""

    ownership = Ownership.SHARED

    def __init__(self, heard: AgentHeard) -> None:
        self._heard = heard
        self._others: dict[str, State] = {}
        """The other servers' unfinished jobs at the last look."""
        self._bookings: dict[str, int] = {}
        self._moving: set[str] = set()
        """Unfinished jobs, and those whose outputs were not in place, at the last look."""

    def first_jobs(self, store: SqlStore) -> list[Record]:
        """None: `look` claims them."""
        del store
        return []

    def unfinished(self, own: dict[str, Record], store: SqlStore) -> dict[str, Record]:
        del own
        return {record.job.name: record for record in store.unfinished()}

    def is_memory_current(self, silent_s: float) -> bool:
        return silent_s < FRESH_S

    def holds(self, name: str, own: Mapping[str, Record]) -> bool:
        return name in own

    def when_replaced(self) -> Peers:
        """The same: the other servers stay where they are."""
        return self

    def look(self, loop: Loop) -> None:
        """Claims the jobs of servers that are gone, reads the inbox, and passes on what changed elsewhere."""
        store, token = loop.store, loop.token
        try:
            store.claim(token)
            heads = store.heads()
            self._own(loop, [head for head in heads if head.lease == token])
            self._hear(loop)
            self._notice(loop, heads)
        except StaleError:
            return  # The next heartbeat comes back as a new server.

    def _own(self, loop: Loop, heads: Sequence[Head]) -> None:
        """Brings the loop's jobs to what the store says this server holds."""
        held, jobs = {head.name: head.version for head in heads}, loop.jobs
        for name in jobs.keys() - held.keys():
            del jobs[name]
        for name, version in held.items():
            if name not in jobs or jobs[name].version != version:
                loop.add(loop.store.load(name))
                loop.has_effects.set()

    def _hear(self, loop: Loop) -> None:
        """Applies the messages in the inbox; those beyond the time budget stay for the next look."""
        store, clock = loop.store, loop.clock
        end = clock.monotonic() + INBOX_BUDGET_S
        for letters in _by_sender(store.inbox(loop.token)):
            newest = letters[-1]
            if isinstance(newest.message, AgentSaid):
                self._heard(newest.job, newest.message.attempt, newest.message.node)
            if clock.monotonic() < end:
                loop.apply(newest.job, newest.message)
                faultpoint("sharing.heard")
                store.heard([one.id for one in letters])

    def _notice(self, loop: Loop, heads: Sequence[Head]) -> None:
        """Publishes jobs that moved elsewhere, and has the queue looked at again if they did."""
        others = {head.name: head.state for head in heads if head.name not in loop.jobs}
        queued = {job.plan.compute for job in loop.jobs_queued(loop.jobs)}
        bookings = {name: loop.store.booked(name) for name in (*queued, ALL_COMPUTES)} if queued else {}
        if (others, bookings) != (self._others, self._bookings):
            loop.must_place = True
        publishing = {one.job for one in loop.store.outbox() if isinstance(one.effect, PublishOutputs)}
        moving = {head.name for head in heads} | publishing
        for name in moving | self._moving:
            loop.bus.publish(job_topic(name))
        self._others, self._bookings, self._moving = others, bookings, moving


def _by_sender(letters: Sequence[Letter]) -> list[list[Letter]]:
    """Groups the letters of one agent, newest last: the newest repeats all that still holds of the others.

    Any other letter stands alone.
    """
    groups: dict[object, list[Letter]] = {}
    for letter in letters:
        message = letter.message
        sender = (letter.job, message.attempt, message.node) if isinstance(message, AgentSaid) else letter.id
        groups.setdefault(sender, []).append(letter)
    return [sorted(group, key=_serial) for group in groups.values()]


def _serial(letter: Letter) -> int:
    return letter.message.status.serial if isinstance(letter.message, AgentSaid) else 0
