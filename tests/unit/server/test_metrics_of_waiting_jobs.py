"""The run of a job that waits: readers don't begin it."""

from __future__ import annotations

import time

import pytest

from drumbeat.model.agent import Phase
from drumbeat.model.api.metrics import MetricsView
from drumbeat.model.metric_lines import encode_record
from drumbeat.model.metrics import Point, PointsLogged, Source, run_id
from drumbeat.server.control import Control
from drumbeat.server.metrics.metrics import MetricPlace
from drumbeat.server.metrics.routes import show_curves, show_metrics
from tests.support.fake_engine import FakeEngine
from tests.support.memory_metrics import MemoryMetricStore
from tests.support.memory_store import MemoryStore
from tests.unit.server.house import House, until


class Opened:
    """A place of metrics that notes whether it was opened."""

    def __init__(self) -> None:
        self.store = MemoryMetricStore()
        self.is_open = False

    def open(self) -> MemoryMetricStore:
        self.is_open = True
        return self.store

    def place(self) -> MetricPlace:
        return MetricPlace(self.open, lambda: self.is_open)


@pytest.fixture
def opened():
    return Opened()


@pytest.fixture
def house(tmp_path, opened):
    there = House(tmp_path, MemoryStore(), FakeEngine(), metrics=opened.place())
    yield there
    there.control.stop()


def millis(at) -> int:
    return int(at.timestamp() * 1000)


def test_run_viewed_while_its_job_waited_begins_with_the_job(house: House, opened: Opened):
    control: Control = house.control
    house.submit("a")
    experiment = house.store.load("a").job.plan.experiment
    assert show_metrics("a", control) == MetricsView("a", run_id("a"), experiment, "SCHEDULED")
    assert show_curves("a", control) == []
    assert not opened.is_open
    house.say("a", 0, Phase.READY)
    started_at = house.store.load("a").job.started_at
    assert started_at is not None
    assert show_metrics("a", control).status == "RUNNING"
    assert opened.store.run(run_id("a")).start_ms == millis(started_at)


def test_run_of_a_job_canceled_while_it_waited_is_killed(house: House, opened: Opened):
    house.submit("a")
    house.control.jobs.cancel("a", "ada")
    until(lambda: house.state("a").is_terminal)
    assert show_metrics("a", house.control).status == "KILLED"


def test_run_begins_with_the_first_record_that_a_node_sends_before_the_start(house: House, opened: Opened):
    house.submit("a")
    secret = house.gang("a").node_secret(0)
    submitted_ms = millis(house.store.load("a").job.submitted_at)
    until(lambda: time.time_ns() // 1_000_000 > submitted_ms)
    lines = encode_record(PointsLogged(run_id("a"), -1, (Point("system/cpu_percent", 5.0, 0, 1),)))
    house.control.metrics.take(Source("a", 1, 0), secret, 0, lines)
    shown = show_metrics("a", house.control)
    assert (shown.status, [one.name for one in shown.series]) == ("RUNNING", ["system/cpu_percent"])
    assert opened.store.run(run_id("a")).start_ms > submitted_ms
