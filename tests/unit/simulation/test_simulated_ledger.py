"""The ledger of every job of the simulator sums to the job's wall time, whatever was killed, cut off or delayed."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta

import pytest

from drumbeat.core import ledger_times
from drumbeat.model.api.ledger import TimeClass
from tests.support.simulation.backing import MemoryBacking
from tests.support.simulation.invariants import Checker, come_to_rest
from tests.support.simulation.schedules import happen, schedule
from tests.support.simulation.world import World

SEEDS = range(5)


@pytest.mark.feature("M6")
def test_classes_of_simulated_jobs_sum_to_their_wall_time():
    classes: set[TimeClass] = set()
    for seed in SEEDS:
        with closing(MemoryBacking()) as backing:
            world = World(1, backing)
            checker = Checker(world)
            for action in schedule(seed):
                happen(world, action)
                checker.check()
            come_to_rest(world, checker)
            sight = world.look()
            for name, record in sight.records.items():
                end = record.job.ended_at
                assert end is not None, f"seed {seed}: job {name} has not ended"
                sums = ledger_times.by_class(ledger_times.stretches(sight.events[name], end))
                assert sum(sums.values(), timedelta()) == end - record.job.submitted_at, f"seed {seed}: job {name}"
                classes |= {one for one, length in sums.items() if length}
    assert classes >= {TimeClass.QUEUE, TimeClass.PROVISION, TimeClass.STAGE, TimeClass.TRAIN}
