"""Samples of the ranks of jobs that go on, a few in `hang_after_s`, by which a slow rank is named."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from drumbeat.core.diagnosis.hangs.hang_verdict import HangVerdict
from drumbeat.core.diagnosis.hangs.straggler_phases import RankPhases
from drumbeat.core.diagnosis.hangs.stragglers import MIN_WAITS, WaitRecord
from drumbeat.core.lifecycle import hang_response
from drumbeat.core.lifecycle.job import Job

SAMPLED_S = 2.0
"""For so long ranks are sampled in a look."""
RANK_S = 4.0
"""Seconds between two looks for each rank of a node: a look takes about 50 ms of CPU time a rank."""
MAX_RANKS = 256
"""Jobs of more ranks aren't looked at: the answers would be much to send and to read, again and again."""


@dataclass
class StragglerSamples:
    """The looks at one round."""

    looked_at: float = 0.0
    _record: WaitRecord = field(default_factory=WaitRecord)

    def is_due(self, job: Job, now: float) -> bool:
        """Whether another look is due at this time; none is once a slow rank was named."""
        if not 2 <= len(job.plan.workers) <= MAX_RANKS or hang_response.slow_subject(job) in job.remarks:
            return False
        self.looked_at = self.looked_at or now
        return now - self.looked_at >= max(job.plan.hang_after_s / MIN_WAITS, RANK_S * job.plan.processes_per_node)

    def take(self, look: Sequence[RankPhases], workers: Collection[int]) -> HangVerdict | None:
        """Returns the slow rank once enough looks name it. A look that isn't at all ranks counts for nothing."""
        ranks = [one for one in look if one.rank in workers]
        if {one.rank for one in ranks} == set(workers):
            self._record.take(ranks)
        return self._record.slow()
