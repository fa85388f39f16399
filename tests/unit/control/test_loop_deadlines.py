"""What the loop does when a job's time has come."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from drumbeat.control.bus import Bus
from drumbeat.control.loop.loop import Loop
from drumbeat.control.loop.peers import NoPeers
from drumbeat.core.life.events import Event, JudgeDue, TimeUp
from drumbeat.core.life.job import Job
from drumbeat.core.life.machine import JUDGE_AFTER
from drumbeat.ports import Record
from drumbeat.testing.clock import FakeClock
from drumbeat.testing.memory_store import MemoryStore
from tests.unit.core.jobs import running

pytestmark = pytest.mark.feature("F10")


class Deadlines(Loop):
    """A loop that only notes what it would apply. broken: jobs of which it can't."""

    def __init__(self, clock: FakeClock, *jobs: Job) -> None:
        super().__init__(MemoryStore(), clock, Bus(), NoPeers(lambda *_: None))
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


def test_a_job_that_cant_be_stopped_holds_up_nobody_elses_limit():
    clock = FakeClock()
    loop = Deadlines(clock, at_work(clock, "a", 20), at_work(clock, "b", 20))
    loop.broken = {"a"}
    loop.tick()
    clock.advance(20)
    with pytest.raises(IndexError, match="a"):
        loop.tick()
    assert loop.applied == [("b", TimeUp)]


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
