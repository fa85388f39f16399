"""Heartbeats of agents: when each was heard last, and after how long a silence a node counts as lost.

The job's own key `drumbeat: lost_after_s` sets that time; its default is in `jobfile/job/timeouts_and_retries.py`. It
runs on this server's monotonic clock, which begins with the server; time in which the server stood still doesn't count.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Mapping

from drumbeat.core.lifecycle.job import Job
from drumbeat.ports.clock import Clock

log = logging.getLogger(__name__)

FIRST_CALL_S = 60.0
"""After this time an agent that has not called yet is reported: it may never do so."""

Node = tuple[str, int, int]
"""Job, attempt, node."""


class Heartbeats:
    """When each agent was heard last. Thread-safe.

    paused_after_s: a server that has not looked for longer than this stood still itself.
    """

    def __init__(self, clock: Clock, paused_after_s: float) -> None:
        self._clock, self._paused_after_s = clock, paused_after_s
        self._heard: dict[Node, float] = {}
        self._awake_at: float | None = None
        """When this server last looked; None before its first look."""
        self._lock = threading.Lock()

    def heard(self, job: str, attempt: int, node: int) -> None:
        """Notes that an agent has called."""
        with self._lock:
            self._heard[job, attempt, node] = self._clock.monotonic()

    def wake(self) -> None:
        """Begins to count the time in which this server stands still."""
        self._awake_at = self._clock.monotonic()

    def excuse(self) -> None:
        """Takes the time in which this server stood still off every agent's silence."""
        with self._lock:
            self._excused_now()

    def _excused_now(self) -> float:
        """Returns the time; the lock must be held, or the server could stand still between clock and subtraction."""
        now = self._clock.monotonic()
        if self._awake_at is not None:
            gap, self._awake_at = now - self._awake_at, now
            if gap > self._paused_after_s:
                log.warning("this server stood still for %.0f s, which isn't taken for its agents' silence", gap)
                self._heard = {node: min(now, at + gap) for node, at in self._heard.items()}
        return now

    def keep_only(self, attempts: Collection[tuple[str, int]]) -> None:
        """Forgets the nodes of all other attempts (job, attempt)."""
        with self._lock:
            self._heard = {node: at for node, at in self._heard.items() if node[:2] in attempts}

    def silent_s(self, job: str, attempt: int, node: int) -> float:
        """How long an agent has been silent, counted from the first question about it if it never called."""
        with self._lock:
            now = self._excused_now()
            return now - self._heard.setdefault((job, attempt, node), now)


def without_first_call(job: Job, silent: Mapping[int, float]) -> list[int]:
    """Returns the nodes whose agents are late with their first call. silent: seconds of silence, by node."""
    return [node for node, silent_s in silent.items() if silent_s > FIRST_CALL_S and job.nodes[node] is None]


def lost_by_silence(job: Job, silent: Mapping[int, float]) -> dict[int, float]:
    """Returns the nodes that have been silent for longer than the job's `lost_after_s`, with their seconds."""
    return {node: silent_s for node, silent_s in silent.items() if silent_s > job.plan.lost_after_s}
