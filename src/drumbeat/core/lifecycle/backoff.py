"""The delay before another try, where the same failure recurs: a pure function of the job's failures.

The delays are the job's keys `retry_delay_s` and `max_retry_delay_s`; their defaults are in
`jobfile/job/timeouts_and_retries.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from drumbeat.core.lifecycle.job import Failure, Job
from drumbeat.core.reason_table import REASONS
from drumbeat.core.scheduling.resource_needs import JobPolicy

MAX_DOUBLINGS = 30


def delay(failures: Sequence[Failure], policy: JobPolicy) -> timedelta:
    """Returns how long the job waits before the try that follows the last of the failures.

    The first failure of its kind is followed at once. A further one that comes before the kind's `recurs_within` is
    over, counted from the try that followed the one before, waits `retry_delay_s`, and each next one twice as long as
    the last, up to `max_retry_delay_s`. A kind is a reason.
    """
    reason = failures[-1].verdict.reason
    within = REASONS[reason].recurs_within
    recurrences, wait = 0, timedelta()
    alike = [one for one in failures if one.verdict.reason is reason]
    for before, failure in zip([None, *alike], alike, strict=False):
        # The wait doesn't count as time in which the ranks ran without a failure.
        has_recurred = before is not None and failure.at - before.at - wait < within
        recurrences = recurrences + 1 if has_recurred else 0
        wait = _wait(recurrences, policy)
    return wait


def queued_since(job: Job) -> datetime:
    """Returns since when a job in the queue has asked for nodes.

    That is since its submission, since the wait after a failure, or since its ranks ended for another number of nodes.
    """
    if job.queued_at is not None:
        return job.queued_at
    # Of a job that an earlier version of the server put back into the queue.
    return job.failures[-1].at + delay(job.failures, job.policy) if job.failures else job.submitted_at


def _wait(recurrences: int, policy: JobPolicy) -> timedelta:
    if not recurrences:
        return timedelta()
    seconds = policy.retry_delay_s * 2 ** min(recurrences - 1, MAX_DOUBLINGS)
    return timedelta(seconds=min(seconds, policy.max_retry_delay_s))
