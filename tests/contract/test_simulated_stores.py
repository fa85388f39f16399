"""Schedules of faults over the real stores: what the memory store promises, they keep under the same faults."""

import pytest

from drumbeat.testing.simulation.__main__ import in_database
from drumbeat.testing.simulation.actions import schedule
from drumbeat.testing.simulation.shrink import Setup, failure
from tests.unit.simulation.seeds import how_many

pytestmark = [pytest.mark.contract, pytest.mark.feature("F5", "F10")]

SHARE = 250
"""A schedule takes a hundred times longer than in memory: that many times fewer are run, and fewer still."""


@pytest.mark.parametrize("servers", [1, 2])
def test_schedules_hold_over_sqlite(tmp_path, servers, pytestconfig):
    setup = Setup(servers, in_database(tmp_path / "drumbeat.db"))
    for seed in range(how_many(pytestconfig) // SHARE // servers**2):
        assert not failure(schedule(seed, servers), setup), seed


@pytest.mark.xdist_group("postgres")
@pytest.mark.parametrize("servers", [1, 2])
def test_schedules_hold_over_postgresql(postgres, servers, pytestconfig):
    with postgres.database() as name:
        setup = Setup(servers, in_database(postgres.url(name)))
        for seed in range(how_many(pytestconfig) // SHARE // 2 // servers):
            assert not failure(schedule(seed, servers), setup), seed
