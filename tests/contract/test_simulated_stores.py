"""Schedules of faults over databases that are written to a disk, or called over a socket."""

import pytest

from tests.support.simulation.backing import in_database
from tests.support.simulation.schedules import schedule
from tests.support.simulation.shrink import Setup, failure
from tests.unit.simulation.seeds import PATIENT, how_many

pytestmark = [pytest.mark.contract, pytest.mark.feature("F5"), *PATIENT]

SHARE = 500
"""The same statements run in memory, many times quicker: of those schedules, one in so many is run here."""


@pytest.mark.parametrize("servers", [1, 2])
def test_schedules_hold_over_sqlite(tmp_path, servers, pytestconfig):
    setup = Setup(servers, in_database(tmp_path / "drumbeat.db"))
    for seed in range(how_many(pytestconfig) // SHARE + 1):
        assert not failure(schedule(seed, servers), setup), seed


@pytest.mark.xdist_group("postgres")
@pytest.mark.thorough
@pytest.mark.parametrize("servers", [1, 2])
def test_schedules_hold_over_postgresql(postgres, servers, pytestconfig):
    with postgres.database() as name:
        setup = Setup(servers, in_database(postgres.url(name)))
        for seed in range(how_many(pytestconfig) // SHARE + 1):
            assert not failure(schedule(seed, servers), setup), seed
