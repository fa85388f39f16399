"""Decides what the server still accepts from the nodes of an attempt that is over. Pure.

A node that ends with its job has sent its logs and metrics before (`AgentStatus.has_sent_logs`). One that was cut off
may come back when the job has gone on, or has ended, without it.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from drumbeat.core.lifecycle.job import Job
from drumbeat.model.errors import StaleError

LATE_FOR = timedelta(hours=1)
"""How long after the end of its attempt a node that was cut off may send the logs and metrics of its ranks."""


def is_heard_late(job: Job, attempt: int, node: int, now: datetime) -> bool:
    """Whether a node may still send logs and metrics after its attempt, or while another one runs."""
    if attempt != job.attempt:
        return not job.state.is_terminal
    if not job.is_without_nodes:
        return True
    status = job.nodes[node] if job.nodes else None
    has_sent_all = status is not None and status.round == job.round and status.has_sent_logs
    over_at = job.ended_at or job.queued_at or now
    return not has_sent_all and now - over_at <= LATE_FOR


def over(job: Job) -> StaleError:
    """Returns the refusal of a call after the end of the job's last attempt."""
    return StaleError(f"attempt {job.attempt} of job {job.name} is over: the job is {job.state}")
