"""Several servers over one store: who holds which job, and how the others' word reaches the one that does.

Each server decides for the jobs that it holds, and reads the others' from the store. What comes to a server about a job
that isn't its own waits in the store's inbox until the holder's next look. See decision 0009.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from drumbeat.control.loop import Loop
from drumbeat.core.events import AgentSaid, PublishOutputs
from drumbeat.core.job import Job
from drumbeat.core.states import State
from drumbeat.ports import Head, Message
from drumbeat.protocol.errors import StaleError
from drumbeat.protocol.faults import faultpoint


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
        for letter in self.loop.store.inbox(self.loop.token):
            message = letter.message
            if isinstance(message, AgentSaid):
                self.heard(letter.job, message.attempt, message.node)
            self.loop.apply(letter.job, message)
            faultpoint("sharing.heard")
            self.loop.store.heard([letter.id])

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
