"""A closer look at the ranks of a round that may hang at the rendezvous.

After how long is the job's key `rendezvous_timeout_s`; its default is in `jobfile/job/timeouts_and_retries.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from drumbeat.core.diagnosis.hangs import rendezvous
from drumbeat.core.diagnosis.hangs.activity import Activity
from drumbeat.core.diagnosis.hangs.rendezvous import RendezvousLimit, RendezvousState, RendezvousVerdict, Roll
from drumbeat.core.lifecycle.job import Job
from drumbeat.model.states import Reason
from drumbeat.server.nodes.closer_look import CloserLook
from drumbeat.server.nodes.stacks import JobFacts, hosts_of

LOOKS = 5
"""Looks within the job's `rendezvous_timeout_s`, once a rank has given no sign of work for as long."""


@dataclass
class RendezvousLook:
    """Looks at the ranks of one round."""

    job: Job
    closer: CloserLook
    arrivals: dict[int, float] = field(default_factory=dict[int, float])
    """Rank to when looks first found it in the rendezvous, by `clock`; kept from look to look."""
    clock: Callable[[], float] = time.monotonic

    def look(self) -> tuple[RendezvousVerdict, JobFacts]:
        """Returns how far the rendezvous is; late or stuck only if a second look has the ranks in the same places."""
        first = self._once()
        if not _has_timed_out(first[0]):
            return first
        return self.closer.confirmed(first, self._once, _has_timed_out, RendezvousVerdict(RendezvousState.OPEN))

    def _once(self) -> tuple[RendezvousVerdict, JobFacts]:
        closer, facts = self.closer, self.closer.facts()
        if unclear := closer.unclear(facts):
            facts = closer.with_native(facts, unclear)
        left = set(closer.left()) & set(closer.workers)
        activities = [one for one in closer.activities(facts) if one.rank not in left]
        ranks = [one for one in self.job.plan.ranks if not one.serves]
        roll = Roll(ranks, hosts_of(self.job), activities, left, self._note_arrivals(activities))
        return rendezvous.judge(roll, RendezvousLimit(closer.limit_s, self.job.plan.is_rendezvous_strict)), facts

    def _note_arrivals(self, activities: Collection[Activity]) -> dict[int, float]:
        """Returns how long each rank has been in the rendezvous; one that is seen elsewhere begins again."""
        now = self.clock()
        for one in activities:
            if one.is_at_start:
                self.arrivals.setdefault(one.rank, now)
            else:
                self.arrivals.pop(one.rank, None)
        return {rank: now - since for rank, since in self.arrivals.items()}


def _has_timed_out(verdict: RendezvousVerdict) -> bool:
    return verdict.state in (RendezvousState.LATE, RendezvousState.STUCK)


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
