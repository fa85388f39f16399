"""Looks at the ranks of jobs that go on, a few in `hang_after_s`, by which a slow rank is named."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from drumbeat.core.diagnosis.hangs.activity import Activity
from drumbeat.core.diagnosis.hangs.stragglers import LOOKS, slow_rank
from drumbeat.core.diagnosis.hangs.verdict import HangVerdict
from drumbeat.core.life import hang_response
from drumbeat.core.life.job import Job

PAUSE_S = 0.3
"""Between the two looks of an agent."""
RANK_S = 4.0
"""Seconds between two looks for each rank of a node: a look takes about 40 ms of CPU time a rank."""
MAX_RANKS = 256
"""Jobs of more ranks aren't looked at: the answers would be much to send and to read, again and again."""


@dataclass
class StragglerSamples:
    """The looks at one round."""

    looked_at: float = 0.0
    _looks: deque[Sequence[Activity]] = field(default_factory=lambda: deque[Sequence[Activity]](maxlen=LOOKS))

    def is_due(self, job: Job, now: float) -> bool:
        """Whether another look is due at this time; none is once a slow rank was named."""
        if not 2 <= len(job.plan.workers) <= MAX_RANKS or hang_response.slow_subject(job) in job.remarks:
            return False
        self.looked_at = self.looked_at or now
        return now - self.looked_at >= max(job.plan.hang_after_s / LOOKS, RANK_S * job.plan.processes_per_node)

    def take(self, activities: Sequence[Activity], workers: Collection[int]) -> HangVerdict | None:
        """Returns the slow rank once enough looks name it. A look that isn't at all ranks counts for nothing."""
        if {one.rank for one in activities} == set(workers):
            self._looks.append(activities)
        return slow_rank(list(self._looks))
