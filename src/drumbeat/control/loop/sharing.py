"""Several servers over one store: who holds which job, and how the others' word reaches the one that does.

Each server decides for the jobs that it holds, and reads the others' from the store. What comes to a server about a job
that isn't its own waits in the store's inbox until the holder's next look. See decision 0009.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from drumbeat.control.loop.loop import Loop
from drumbeat.core.life.events import AgentSaid, PublishOutputs
from drumbeat.core.life.job import Job
from drumbeat.ports import Head, Letter, Message
from drumbeat.protocol.errors import StaleError
from drumbeat.protocol.faults import faultpoint
from drumbeat.protocol.states import State

HEAR_S = 1.0
"""About how long one look may be at what came to other servers."""


class Sharing:
    """Beside a loop, and on its thread. heard: told of each agent (job, attempt, node) that called another server."""

    def __init__(self, loop: Loop, heard: Callable[[str, int, int], None]) -> None:
        self.loop, self.heard = loop, heard
        self._others: dict[str, State] = {}
        self._bookings: dict[str, int] = {}
        self._moving: set[str] = set()
        """Unfinished jobs, and those whose outputs weren't in their places, at the last look."""

    def deliver(self, name: str, message: Message) -> Job:
        """The job after the message; as it is, where the message waits for the job's holder."""
        if self.loop.holds(name):
            try:
                return self.loop.apply(name, message)
            except StaleError:
                pass  # It was ours until just now.
        self.loop.store.post(name, message)
        return self.loop.store.load(name).job

    def look(self) -> None:
        """Once in every tick of a server that isn't alone."""
        store, token = self.loop.store, self.loop.token
        try:
            store.claim(token)
            heads = store.heads()
            self._own([head for head in heads if head.lease == token])
            self._hear()
            self._notice(heads)
        except StaleError:
            return  # The next beat comes back as a new server.

    def _own(self, heads: Sequence[Head]) -> None:
        """What is ours by the store is ours here, and nothing else."""
        mine, jobs = {head.name: head.version for head in heads}, self.loop.jobs
        for name in jobs.keys() - mine.keys():
            del jobs[name]
        for name, version in mine.items():
            if name not in jobs or jobs[name].version != version:
                self.loop.add(self.loop.store.load(name))
                self.loop.has_effects.set()

    def _hear(self) -> None:
        """What takes long waits for the next look: the lease has to be kept in between."""
        store, clock = self.loop.store, self.loop.clock
        there = store.inbox(self.loop.token)
        end = clock.monotonic() + HEAR_S
        for letters in _together(there):
            newest = letters[-1]
            if isinstance(newest.message, AgentSaid):
                self.heard(newest.job, newest.message.attempt, newest.message.node)
            if clock.monotonic() < end:
                self.loop.apply(newest.job, newest.message)
                faultpoint("sharing.heard")
                store.heard([one.id for one in letters])

    def _notice(self, heads: Sequence[Head]) -> None:
        """Followers hear of jobs and logs that moved elsewhere; and the queue is looked at again if they did."""
        loop = self.loop
        others = {head.name: head.state for head in heads if head.name not in loop.jobs}
        queued = {job.plan.compute for job in loop.jobs_queued(loop.jobs)}
        bookings = {compute: loop.store.booked(compute) for compute in queued}
        if (others, bookings) != (self._others, self._bookings):
            loop.must_place = True
        publishing = {one.job for one in loop.store.outbox() if isinstance(one.effect, PublishOutputs)}
        moving = {head.name for head in heads} | publishing
        for name in moving | self._moving:
            loop.announce(name)
        self._others, self._bookings, self._moving = others, bookings, moving


def _together(letters: Sequence[Letter]) -> list[list[Letter]]:
    """Those of one agent, the newest last: it says all that is still so of the others. What else came is by itself."""
    found: dict[object, list[Letter]] = {}
    for letter in letters:
        said = letter.message
        sender = (letter.job, said.attempt, said.node) if isinstance(said, AgentSaid) else letter.id
        found.setdefault(sender, []).append(letter)
    return [sorted(several, key=_serial) for several in found.values()]


def _serial(letter: Letter) -> int:
    return letter.message.status.serial if isinstance(letter.message, AgentSaid) else 0
