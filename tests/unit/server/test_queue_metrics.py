"""What the metrics tell of the queue: waits for slots, without waits before another try."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from drumbeat.core.end_verdict import Verdict
from drumbeat.core.lifecycle.events import Placed
from drumbeat.core.lifecycle.job import Failure, Job
from drumbeat.core.lifecycle.state_machine import decide
from drumbeat.model.states import Reason
from drumbeat.server.loop.loop import Applied
from drumbeat.server.operations.job_change_counts import JobCounts
from drumbeat.server.operations.metric_table import METRICS, MetricSources
from tests.unit.core.jobs import a_job, at, slots

pytestmark = pytest.mark.feature("M5")

LOST = tuple(Failure(n, 1, Verdict(Reason.NODE_LOST, "x"), at(second)) for n, second in enumerate((100, 105), 1))
"""The second one is followed by a wait of 10 s."""


def gauge(name: str, *jobs: Job, now: float) -> float:
    """The value of a metric of the compute, with these jobs."""
    records = {number: SimpleNamespace(job=job) for number, job in enumerate(jobs)}
    loop = SimpleNamespace(jobs=records, clock=SimpleNamespace(now=lambda: at(now)))
    engines = SimpleNamespace(all=lambda: [jobs[0].plan.compute])
    control: Any = SimpleNamespace(loop=loop, engines=engines)
    row = next(row for row in METRICS if row.name == name)
    values = row.read(MetricSources(control, JobCounts(), cast("Any", None), {}))
    assert isinstance(values, dict)
    return values[jobs[0].plan.compute,]


def test_job_in_back_off_is_not_in_the_queue():
    again = replace(a_job(1, 1), failures=LOST)
    waits = replace(again, retry_at=at(115))
    assert gauge("drumbeat_queue_length", waits, a_job(1, 1), now=110) == 1
    assert gauge("drumbeat_queue_oldest_seconds", waits, now=110) == 0
    assert gauge("drumbeat_queue_length", again, now=118) == 1
    assert gauge("drumbeat_queue_oldest_seconds", again, now=118) == 3


def test_wait_for_slots_is_counted_from_the_end_of_the_back_off():
    job, counts = replace(a_job(1, 1), failures=LOST), JobCounts()
    counts.note(Applied(job, decide(job, Placed(slots(1)), at(119)).job, (), at(119), 0.0))
    (_, total) = counts.waits.read()[job.plan.compute,]
    assert total == 4
