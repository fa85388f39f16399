"""A closer look at silent ranks: twice, with native frames where Python's leave it open."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from drumbeat.control.gangs.stacks import JobFacts
from drumbeat.core.diagnosis.hangs.activity import Activity
from drumbeat.core.diagnosis.hangs.verdict import HangVerdict, Stillness, judge

MAX_PAUSE_S, MAX_CONFIRM_S = 5.0, 30.0
"""Between the two looks of an agent, and before a hang is confirmed."""


@dataclass(frozen=True)
class Ask:
    """What is asked of the nodes. ranks: () = all."""

    pause_s: float = 0.0
    is_native: bool = False
    ranks: tuple[int, ...] = ()
    sample_s: float = 0.0
    """For how long the ranks are sampled; 0 = looks are wanted."""


@dataclass
class SilenceLook:
    """Looks at the ranks of one round.

    workers: the ranks whose work counts; those that serve others have nothing to do until they are asked. left: returns
    those that exited with code 0. wait: waits for that long, and returns whether to give up.
    """

    workers: Collection[int]
    hang_after_s: float
    ask: Callable[[Ask], JobFacts]
    left: Callable[[], Collection[int]]
    wait: Callable[[float], bool]
    working: set[tuple[int, str]] = field(default_factory=set[tuple[int, str]])
    """Ranks and places that native frames have shown to be work."""
    places: dict[int, str] = field(default_factory=dict[int, str])
    """Where each rank was at the look before, `hang_after_s` ago."""

    def look(self) -> tuple[HangVerdict, JobFacts]:
        """Returns what the silence is. A hang is one only if a second look has the same ranks in the same places."""
        verdict, facts = self._once()
        if not verdict.is_hang:
            return verdict, facts
        if verdict.needs_time and not self._is_as_before(facts):
            return HangVerdict(Stillness.UNKNOWN), facts
        if self.wait(min(self.hang_after_s, MAX_CONFIRM_S)):
            return HangVerdict(Stillness.UNKNOWN), facts
        confirmed, again = self._once()
        if confirmed.is_hang and not (confirmed.rank == verdict.rank and is_still(facts, again)):
            return HangVerdict(Stillness.UNKNOWN), again
        return confirmed, again

    def _is_as_before(self, facts: JobFacts) -> bool:
        """Whether every rank is where it was at the look before, which was `hang_after_s` ago."""
        before = dict(self.places)
        self.places.clear()
        self.places.update({one.rank: one.digest for one in facts.activities})
        return before == self.places

    def _once(self) -> tuple[HangVerdict, JobFacts]:
        facts = self.ask(Ask(min(MAX_PAUSE_S, self.hang_after_s / 2)))
        if unclear := unclear_ranks(self._activities(facts)):
            if {(one.rank, one.digest) for one in unclear} <= self.working:
                return HangVerdict(Stillness.BUSY), facts
            facts = facts.with_native(self.ask(Ask(is_native=True, ranks=tuple(one.rank for one in unclear))))
            self.working |= {(one.rank, one.digest) for one in self._activities(facts) if one.works}
        left = set(self.left()) & set(self.workers)
        activities = [one for one in self._activities(facts) if one.rank not in left]
        missing = set(self.workers) - left - {one.rank for one in activities}
        return judge(activities, left, missing), facts

    def _activities(self, facts: JobFacts) -> list[Activity]:
        return [one for one in facts.activities if one.rank in self.workers]


def unclear_ranks(activities: Collection[Activity]) -> list[Activity]:
    """Returns the ranks whose native frames decide whether it is a hang; [] = it is clear without."""
    unclear = [one for one in activities if one.is_unclear]
    is_open = all(one.is_unclear or not one.works for one in activities)
    return unclear if is_open else []


def is_still(first: JobFacts, second: JobFacts) -> bool:
    """Whether no rank that waits for others has moved between two looks, as far as the stacks say."""
    before = {one.rank: one.digest for one in first.activities}
    waiting = (one for one in second.activities if one.waits_for_ranks and one.digest)
    return all(one.digest == before.get(one.rank, "") for one in waiting)
