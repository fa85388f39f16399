"""A closer look at silent ranks.

What counts as silence is decided on each node, in `node/stacks/silence.py`; after how long is the job's key
`hang_after_s`, with its default in `jobfile/job/timeouts_and_retries.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from drumbeat.core.diagnosis.hangs.activity import Activity
from drumbeat.core.diagnosis.hangs.hang_verdict import HangVerdict, Stillness, judge
from drumbeat.server.nodes.closer_look import CloserLook
from drumbeat.server.nodes.stacks import JobFacts

_UNSURE = HangVerdict(Stillness.UNKNOWN)


@dataclass
class SilenceMemory:
    """What looks at the ranks of one round remember from one to the next."""

    working: set[tuple[int, str]] = field(default_factory=set[tuple[int, str]])
    """Ranks and places that native frames have shown to be work."""
    on_gpu: set[tuple[int, str]] = field(default_factory=set[tuple[int, str]])
    """Ranks and places that are work for as long as the rank's GPU is busy."""
    places: dict[int, str] = field(default_factory=dict[int, str])
    """Where each rank was at the look before, `hang_after_s` ago."""


@dataclass
class SilenceLook:
    """Looks at the ranks of one round."""

    closer: CloserLook
    remembered: SilenceMemory = field(default_factory=SilenceMemory)

    def look(self) -> tuple[HangVerdict, JobFacts]:
        """Returns what the silence is. A hang is one only if a second look has the same ranks in the same places."""
        verdict, facts = first = self._once()
        if not verdict.is_hang:
            if verdict.stillness in (Stillness.BUSY, Stillness.SLOW):
                self.remembered.places.clear()
            return first
        if verdict.needs_time and not self._is_as_before(facts):
            return _UNSURE, facts
        return self.closer.confirmed(first, self._once, lambda one: one.is_hang, _UNSURE)

    def _is_as_before(self, facts: JobFacts) -> bool:
        """Whether every rank is where it was at the look before, which was `hang_after_s` ago."""
        before = dict(self.remembered.places)
        self.remembered.places.clear()
        self.remembered.places.update({one.rank: one.digest for one in facts.activities})
        return before == self.remembered.places

    def _once(self) -> tuple[HangVerdict, JobFacts]:
        closer, facts = self.closer, self.closer.facts()
        if unclear := closer.unclear(facts):
            if self._is_known(closer.activities(facts), unclear):
                return HangVerdict(Stillness.BUSY), facts
            facts = closer.with_native(facts, unclear)
            works = [one for one in closer.activities(facts) if one.works]
            self.remembered.working |= {_place(one) for one in works if not one.works_by_gpu}
            self.remembered.on_gpu |= {_place(one) for one in works if one.works_by_gpu}
        left = set(closer.left()) & set(closer.workers)
        activities = [one for one in closer.activities(facts) if one.rank not in left]
        missing = set(closer.workers) - left - {one.rank for one in activities}
        return judge(activities, left, missing), facts

    def _is_known(self, activities: Sequence[Activity], unclear: Sequence[Activity]) -> bool:
        """Whether the ranks that are unclear work, by what native frames showed before."""
        if {_place(one) for one in unclear} <= self.remembered.working:
            return True
        is_work = all(
            _place(one) in self.remembered.working or (one.has_busy_gpu and _place(one) in self.remembered.on_gpu)
            for one in unclear
        )
        return is_work and not any(one.is_blocked for one in activities)


def _place(one: Activity) -> tuple[int, str]:
    return one.rank, one.digest
