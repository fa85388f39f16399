"""The nodes of jobs that have ended, which are kept for the next job, and who has taken over which.

What says that nodes are kept is their `stop_gang` in the outbox (`StopGang.keep_s`): the transaction that removes it,
or makes it due, decides whether another job takes them over or the server ends them. So a server that starts finds them
in the store. All of it is used on the loop's thread; agents' requests only look up.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from drumbeat.core.lifecycle import handover
from drumbeat.core.lifecycle.events import Effect, StopGang
from drumbeat.core.lifecycle.job import Job, TakenNodes
from drumbeat.core.lifecycle.transitions import Decision
from drumbeat.model.errors import NotFoundError
from drumbeat.server.database.records import PendingEffect
from drumbeat.server.loop.bus import gang_topic
from drumbeat.server.loop.unfinished_jobs import is_queued

if TYPE_CHECKING:
    from drumbeat.server.loop.loop import Loop

MAX_PARENTS = 8
"""The parents of a job, one above the other, that are asked whether they have more children."""

Attempt = tuple[str, int]
"""A job and its attempt."""


@dataclass(frozen=True)
class KeptGang:
    """The nodes of a job that has ended. n: the number of its `stop_gang` among the effects of the job."""

    job: Job
    n: int
    until: float
    """By the monotonic clock."""

    @property
    def attempt(self) -> Attempt:
        """Whose nodes they are."""
        return self.job.name, self.job.attempt

    @property
    def taken(self) -> TakenNodes:
        """The nodes as the job that takes them over names them."""
        return TakenNodes(self.job.gang, self.job.name, self.job.attempt)

    @property
    def shape(self) -> Hashable:
        """What the job that takes them over must have in common with theirs."""
        return handover.shape(self.job)


class KeptGangs:
    """What the active server knows of kept nodes."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._kept: dict[Attempt, KeptGang] = {}
        self._next: dict[Attempt, str] = {}
        """The unfinished job that has taken over the nodes of an attempt."""
        self._taken: dict[str, Attempt] = {}
        """The same by that job."""

    def read(self, pending: Iterable[PendingEffect]) -> None:
        """Begins with what is stored. pending: the outbox."""
        self._kept.clear()
        self._next.clear()
        self._taken.clear()
        for record in self._loop.jobs.values():
            self._note_taken(record.job)
        for one in pending:
            if isinstance(one.effect, StopGang) and one.effect.keep_s:
                try:
                    self._keep(self._loop.store.load(one.job).job, one.n, one.effect)
                except NotFoundError:
                    continue

    def decided(self, decision: Decision) -> Decision:
        """Returns the end of a job, whose nodes are kept only where there is a job for them."""
        if not any(isinstance(one, StopGang) and one.keep_s for one in decision.effects):
            return decision
        queued = (record.job for record in self._loop.jobs.values() if is_queued(record.job))
        if handover.has_heir(decision.job, queued, self._parents(decision.job)):
            return decision
        return replace(decision, effects=tuple(_without_wait(one) for one in decision.effects))

    def _parents(self, job: Job) -> list[Job]:
        parents: list[Job] = []
        while (record := self._loop.jobs.get(job.parent)) and len(parents) < MAX_PARENTS:
            parents.append(job := record.job)
        return parents

    def committed(self, job: Job, effects: Sequence[Effect]) -> None:
        """Notes what a change of a job means for kept nodes."""
        self._note_taken(job)
        if job.taken and job.attempt:
            self._kept.pop((job.taken.job, job.taken.attempt), None)
        for n, one in enumerate(effects, start=job.effects - len(effects)):
            if isinstance(one, StopGang) and one.keep_s:
                self._keep(job, n, one)
                self._loop.must_place = True

    def _keep(self, job: Job, n: int, effect: StopGang) -> None:
        self._kept[job.name, effect.attempt] = KeptGang(job, n, self._loop.clock.monotonic() + effect.keep_s)

    def _note_taken(self, job: Job) -> None:
        if (before := self._taken.pop(job.name, None)) is not None:
            self._next.pop(before, None)
        if job.taken and not job.is_without_nodes:
            attempt = job.taken.job, job.taken.attempt
            self._next[attempt], self._taken[job.name] = job.name, attempt

    # --- questions ---
    def on(self, compute: str) -> list[KeptGang]:
        """The nodes of a compute that another job can take over, those first that were left first."""
        return [one for one in self._kept.values() if one.job.plan.compute == compute]

    def is_kept(self, job: str, attempt: int) -> bool:
        """Whether the nodes of an attempt wait for another job."""
        return (job, attempt) in self._kept

    def is_early(self, job: str, attempt: int) -> bool:
        """Whether they are to wait longer."""
        kept = self._kept.get((job, attempt))
        return kept is not None and self._loop.clock.monotonic() < kept.until

    def next_job(self, job: str, attempt: int) -> Job | None:
        """The job that has taken over the nodes of an attempt, None = none has."""
        record = self._loop.jobs.get(self._next.get((job, attempt), ""))
        return record.job if record else None

    def wake(self, kept: KeptGang) -> None:
        """Wakes the agents of nodes that another job has taken over."""
        self._loop.bus.publish(gang_topic(kept.job.name))

    # --- the end ---
    def forget(self, kept: KeptGang) -> None:
        """Drops nodes that turned out to be no longer kept."""
        self._kept.pop(kept.attempt, None)

    def hurry(self, kept: KeptGang) -> None:
        """Has kept nodes given back at once: another job needs their slots."""
        if kept.attempt in self._kept:
            self._kept[kept.attempt] = replace(kept, until=self._loop.clock.monotonic())
            self._loop.has_effects.set()

    def close(self, pending: PendingEffect) -> bool:
        """Makes sure that no job takes over these nodes any more; returns False if one has.

        Durable before anything is ended. Raises StandbyError when another server has become the active one.
        """
        if not self._loop.store.claim_stop(pending.id):
            return False
        self._kept.pop((pending.job, pending.attempt), None)
        self._loop.bus.publish(gang_topic(pending.job))
        return True


def _without_wait(effect: Effect) -> Effect:
    return replace(effect, keep_s=0.0) if isinstance(effect, StopGang) else effect
