"""A look at the ranks of a round that may hang at the rendezvous: twice before it counts."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from drumbeat.control.gangs.silence_look import MAX_CONFIRM_S, MAX_PAUSE_S, Ask, is_still, unclear_ranks
from drumbeat.control.gangs.stacks import JobFacts, hosts_of
from drumbeat.core.diagnosis.hangs import rendezvous
from drumbeat.core.diagnosis.hangs.activity import Activity
from drumbeat.core.diagnosis.hangs.rendezvous import RendezvousLimit, RendezvousState, RendezvousVerdict, Roll
from drumbeat.core.life.job import Job
from drumbeat.protocol.states import Reason

LOOKS = 5
"""Looks within the job's `rendezvous_timeout_s`, once a rank has given no sign of work for as long."""

_TIMED_OUT = (RendezvousState.LATE, RendezvousState.STUCK)


@dataclass
class RendezvousLook:
    """Looks at the ranks of one round.

    left: returns those that exited with code 0. wait: waits for that long, and returns whether to give up.
    """

    job: Job
    ask: Callable[[Ask], JobFacts]
    left: Callable[[], Collection[int]]
    wait: Callable[[float], bool]
    arrivals: dict[int, float] = field(default_factory=dict[int, float])
    """Rank to when looks first found it in the rendezvous, by `clock`; kept from look to look."""
    clock: Callable[[], float] = time.monotonic

    def look(self) -> tuple[RendezvousVerdict, JobFacts]:
        """Returns how far the rendezvous is; late or stuck only if a second look has the ranks in the same places."""
        verdict, facts = self._once()
        if verdict.state not in _TIMED_OUT:
            return verdict, facts
        if self.wait(min(self._timeout_s, MAX_CONFIRM_S)):
            return RendezvousVerdict(RendezvousState.OPEN), facts
        confirmed, again = self._once()
        if confirmed.state in _TIMED_OUT and not (confirmed.rank == verdict.rank and is_still(facts, again)):
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
        roll = Roll(ranks, hosts_of(self.job), activities, left, self._note_arrivals(activities))
        return rendezvous.judge(roll, RendezvousLimit(self._timeout_s, self.job.plan.is_rendezvous_strict)), facts

    def _note_arrivals(self, activities: Collection[Activity]) -> dict[int, float]:
        """Returns how long each rank has been in the rendezvous; one that is seen elsewhere begins anew."""
        now = self.clock()
        for one in activities:
            if one.is_at_start:
                self.arrivals.setdefault(one.rank, now)
            else:
                self.arrivals.pop(one.rank, None)
        return {rank: now - since for rank, since in self.arrivals.items()}


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
