"""A queue of many jobs: who is told at once why it waits, and who by turns."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drumbeat.core.lifecycle.events import CancelRequested
from drumbeat.model.api.computes import Machine
from drumbeat.model.states import Reason, State
from drumbeat.server.loop.bus import Bus
from drumbeat.server.loop.loop import Loop
from drumbeat.server.loop.placer import MAX_TOLD_AT_ONCE, MAX_TOLD_BY_TURNS, Supply
from tests.support.fake_clock import FakeClock
from tests.support.memory_store import MemoryStore
from tests.support.sample_jobs import submission

COUNT = 4 * MAX_TOLD_AT_ONCE


@pytest.fixture
def loop() -> Loop:
    """One slot, and many jobs for it."""
    store = MemoryStore()
    for number in range(COUNT):
        sent = submission(f"job-{number:04}")
        store.submit(replace(sent, job=replace(sent.job, need=replace(sent.job.need, cpus=1))))
    loop = Loop(store, FakeClock(), Bus())
    loop.open()
    loop.furnish(Supply({"local": (Machine("m", 1),)}))
    loop.place()
    return loop


def told(loop: Loop) -> list[int]:
    """The number in the queue that each waiting job was told, in their order."""
    jobs = sorted((one.job for one in loop.jobs.values()), key=lambda one: one.name)
    return [int(job.sentence.split()[1]) for job in jobs if job.reason is Reason.WAITING_FOR_TURN]


def test_new_job_has_the_reason_of_its_wait_at_once(loop: Loop):
    assert loop.jobs["job-0000"].job.state is State.PROVISIONING
    assert loop.jobs["job-0001"].job.reason is Reason.WAITING_FOR_SLOTS
    assert told(loop) == list(range(2, COUNT))
    assert not loop.placer.has_untold


def test_jobs_far_behind_hear_by_turns_that_they_have_moved_up(loop: Loop):
    loop.apply("job-0001", CancelRequested("ada"))
    loop.place()
    is_right = [number == place for place, number in enumerate(told(loop), 2)]
    assert all(is_right[: MAX_TOLD_AT_ONCE - 1])
    assert sum(is_right) < 2 * MAX_TOLD_AT_ONCE
    loop.tick()
    assert loop.must_place
    for _ in range(COUNT // MAX_TOLD_BY_TURNS):
        loop.place()
    assert told(loop) == list(range(2, COUNT - 1))
    assert not loop.placer.has_untold
