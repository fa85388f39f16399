"""What the live line at the bottom of a terminal says of a job that is followed.

Its words for a job that waits are the job's sentence, which the server writes: what is missing and the place in the
queue in `core/scheduler.py`, for clusters with a queue of their own in `core/cluster_queue.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from drumbeat.cli.follow.live_line import spin
from drumbeat.cli.terminal.formatting import say_countdown, say_duration, say_metric
from drumbeat.cli.terminal.untrusted_text import make_safe
from drumbeat.protocol.api.jobs import JobView
from drumbeat.protocol.states import State


@dataclass(frozen=True)
class Now:
    """One moment: on the wall, and on a clock that never goes back."""

    wall: datetime
    monotonic: float


def kill_at(job: JobView) -> datetime | None:
    """When the ranks that are left are killed; None = none is left, or none is being stopped."""
    are_left = sum(len(node.exits) for node in job.nodes) < job.world_size
    return job.stop_at if job.state == State.STOPPING and are_left else None


def status_of(job: JobView, now: Now) -> str:
    """Returns the line: state, time, primary metric, progress; while ranks are being stopped, the grace time left."""
    since = say_duration(now.wall - job.submitted_at)
    metric = say_metric(job.primary) if job.primary else ""
    parts = [f"{spin(now.monotonic)} {job.state}", since, metric, job.progress]
    if end := kill_at(job):
        parts.insert(1, say_countdown(end, now.wall))
    return make_safe(" · ".join(part for part in parts if part))
