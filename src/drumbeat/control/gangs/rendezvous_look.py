"""A look at the ranks of a round that may hang at the rendezvous: twice before it counts."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from drumbeat.control.gangs.silence_look import MAX_CONFIRM_S, MAX_PAUSE_S, Ask, is_still, unclear_ranks
from drumbeat.control.gangs.stacks import JobFacts, hosts_of
from drumbeat.core.diagnosis.hangs import rendezvous
from drumbeat.core.diagnosis.hangs.rendezvous import RendezvousState, RendezvousVerdict, Roll
from drumbeat.core.life.job import Job
from drumbeat.protocol.states import Reason

LOOKS = 5
"""Looks within the job's `rendezvous_timeout_s`, once a rank has given no sign of work for as long."""


@dataclass
class RendezvousLook:
    """Looks at the ranks of one round.

    left: returns those that exited with code 0. wait: waits for that long, and returns whether to give up.
    """

    job: Job
    ask: Callable[[Ask], JobFacts]
    left: Callable[[], Collection[int]]
    wait: Callable[[float], bool]

    def look(self) -> tuple[RendezvousVerdict, JobFacts]:
        """Returns how far the rendezvous is. It is stuck only if a second look has the ranks in the same places."""
        verdict, facts = self._once()
        if verdict.state is not RendezvousState.STUCK:
            return verdict, facts
        if self.wait(min(self._timeout_s, MAX_CONFIRM_S)):
            return RendezvousVerdict(RendezvousState.OPEN), facts
        confirmed, again = self._once()
        if confirmed.state is RendezvousState.STUCK and not (confirmed.rank == verdict.rank and is_still(facts, again)):
            return RendezvousVerdict(RendezvousState.OPEN), again
        return confirmed, again

    @property
    def _timeout_s(self) -> float:
        return self.job.plan.rendezvous_timeout_s

    def _once(self) -> tuple[RendezvousVerdict, JobFacts]:
        workers = set(self.job.plan.workers)
        facts = self.ask(Ask(min(MAX_PAUSE_S, self._timeout_s / 2)))
        if unclear := unclear_ranks([one for one in facts.activities if one.rank in workers]):
            facts = facts.with_native(self.ask(Ask(is_native=True, ranks=tuple(one.rank for one in unclear))))
        left = set(self.left()) & workers
        activities = [one for one in facts.activities if one.rank in workers - left]
        ranks = [one for one in self.job.plan.ranks if not one.serves]
        return rendezvous.judge(Roll(ranks, hosts_of(self.job), activities, left), self._timeout_s), facts


def may_hold_one(job: Job) -> bool:
    """Whether the ranks of the round may be at their rendezvous, and one of them has done nothing for a while.

    One that has logged a value is past it, and a rank alone has no other to wait for.
    """
    if not job.plan.rendezvous_timeout_s or len(job.plan.workers) < 2 or job.reason is Reason.TRAINING:
        return False
    return any(status is not None and status.round == job.round and status.is_idle for status in job.nodes)


def interval_s(job: Job) -> float:
    """Returns the seconds between two looks."""
    return job.plan.rendezvous_timeout_s / LOOKS
