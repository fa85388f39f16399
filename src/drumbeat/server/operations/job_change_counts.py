"""Counters of changes of jobs: ends, waiting times, durations of the loop.

Values that are read at a scrape, such as states of jobs and lengths of queues, are in `metric_table.py`.
"""

from __future__ import annotations

from drumbeat.core.lifecycle.backoff import queued_since
from drumbeat.model.states import State
from drumbeat.server.loop.loop import Applied
from drumbeat.server.operations.counters import Counter, Histogram

WAIT_BOUNDS_S = (1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 86400)
WALL_BOUNDS_S = (10, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 86400, 7 * 86400)
LOOP_BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)


class JobCounts:
    """Counts changes of jobs since the start of this server. Written on the loop's thread, read by any."""

    def __init__(self) -> None:
        self.ended = Counter()
        """Ended jobs, by state and reason."""
        self.waits = Histogram(WAIT_BOUNDS_S)
        """Seconds in the queue until slots were granted, by compute."""
        self.walls = Histogram(WALL_BOUNDS_S)
        """Seconds from submission to the end, by state."""
        self.retries = Counter()
        """Rounds and attempts that failed, by reason."""
        self.applied = Histogram(LOOP_BOUNDS_S)
        """Seconds that the loop took to decide and commit a change."""

    def note(self, applied: Applied) -> None:
        """Counts a committed change."""
        before, job = applied.before, applied.job
        self.applied.observe(applied.took_s)
        for failure in job.failures[len(before.failures) :]:
            self.retries.add(failure.verdict.reason)
        if before.state is State.QUEUED and job.state is State.PROVISIONING:
            waited_s = (applied.at - queued_since(before)).total_seconds()
            self.waits.observe(max(waited_s, 0.0), job.plan.compute)
        if job.state.is_terminal and not before.state.is_terminal:
            self.ended.add(job.state, job.reason)
            self.walls.observe(max((applied.at - job.submitted_at).total_seconds(), 0.0), job.state)
