"""What the loop does when a job's time has come."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from drumbeat.core.lifecycle.events import Event, JudgeDue, RetryDue, TimeUp
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.lifecycle.state_machine import JUDGE_AFTER
from drumbeat.model.states import State
from drumbeat.server.database.records import Record
from drumbeat.server.loop.bus import Bus
from drumbeat.server.loop.loop import Loop
from drumbeat.server.loop.unfinished_jobs import UnfinishedJobs
from tests.support.fake_clock import FakeClock
from tests.support.memory_store import MemoryStore
from tests.unit.core.jobs import running


def _unused(*_: object) -> None:
    """Nothing is claimed."""


class Deadlines(Loop):
    """A loop that only notes what it would apply. broken: jobs of which it can't."""

    def __init__(self, clock: FakeClock, *jobs: Job) -> None:
        super().__init__(MemoryStore(), clock, Bus())
        self.open()
        self.jobs = {job.name: Record(job, 1) for job in jobs}
        self.applied: list[tuple[str, type[Event]]] = []
        self.broken: set[str] = set()

    def apply(self, name: str, event: Event, booking: object = None) -> Job:
        if name in self.broken:
            raise IndexError(f"{name}, {booking}")
        self.applied.append((name, type(event)))
        return self.jobs[name].job


def at_work(clock: FakeClock, name: str, limit_s: float | None = None) -> Job:
    return replace(running(timeout_s=limit_s), name=name, started_at=clock.now())


def test_job_that_cannot_be_stopped_delays_no_other_time_limit():
    clock = FakeClock()
    loop = Deadlines(clock, at_work(clock, "a", 20), at_work(clock, "b", 20))
    loop.broken = {"a"}
    loop.tick()
    clock.advance(20)
    with pytest.raises(IndexError, match="a"):
        loop.tick()
    assert loop.applied == [("b", TimeUp)]


@pytest.mark.feature("F10")
def test_ranks_that_miss_a_peer_wait_for_no_longer_where_another_clock_counts():
    """A server took the job over, or started again, and its clock is an hour behind."""
    clock = FakeClock()
    loop = Deadlines(clock, replace(at_work(clock, "a"), judge_at=clock.now() + timedelta(hours=1)))
    loop.tick()
    clock.advance(JUDGE_AFTER.total_seconds() - 1)
    loop.tick()
    assert loop.applied == []
    clock.advance(1)
    loop.tick()
    assert loop.applied == [("a", JudgeDue)]


@pytest.mark.feature("F2")
@pytest.mark.parametrize("state", [State.QUEUED, State.PROVISIONING, State.STAGING])
def test_time_limit_of_a_job_holds_while_it_waits_for_a_later_attempt(state: State):
    clock = FakeClock()
    loop = Deadlines(clock, replace(at_work(clock, "a", 20), state=state))
    loop.tick()
    clock.advance(19.9)
    loop.tick()
    assert loop.applied == []
    clock.advance(0.1)
    loop.tick()
    assert loop.applied == [("a", TimeUp)]


@pytest.mark.feature("F2", "F5")
@pytest.mark.parametrize("state", [State.STAGING, State.QUEUED])
def test_wait_before_another_try_is_kept_by_the_next_server(state: State):
    """A server that reads the job with its wait half over waits for the rest."""
    clock = FakeClock()
    job = replace(at_work(clock, "a"), state=state, retry_at=clock.now() + timedelta(seconds=10))
    Deadlines(clock, job).tick()
    clock.advance(5)
    loop = Deadlines(clock, job)
    loop.tick()
    clock.advance(4.9)
    loop.tick()
    assert loop.applied == []
    clock.advance(0.1)
    loop.tick()
    assert loop.applied == [("a", RetryDue)]


@pytest.mark.feature("F2", "F10")
def test_wait_before_another_try_is_no_longer_where_another_clock_counts():
    clock = FakeClock()
    job = replace(at_work(clock, "a"), state=State.STAGING, retry_at=clock.now() + timedelta(hours=1))
    loop = Deadlines(clock, job)
    loop.tick()
    clock.advance(job.policy.max_retry_delay_s)
    loop.tick()
    assert loop.applied == [("a", RetryDue)]


@pytest.mark.feature("F2")
def test_job_that_waits_before_another_try_is_not_in_the_queue():
    clock = FakeClock()
    job = replace(at_work(clock, "a"), state=State.QUEUED)
    waiting = replace(job, name="b", retry_at=clock.now() + timedelta(seconds=10))
    jobs = UnfinishedJobs()
    jobs.replace(Record(one, 1) for one in (job, waiting))
    assert [one.name for one in jobs.queued()] == ["a"]
