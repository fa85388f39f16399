"""Several servers over one store, one of them active: schedules of their faults hold, and planted defects are found."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy import false

from drumbeat.server.database import SqlStore
from drumbeat.server.loop.lease_tables import Lease
from drumbeat.server.loop.loop import Loop
from tests.runs import is_thorough
from tests.support.simulation.schedules import schedule
from tests.support.simulation.shrink import Setup, failure

from .seeds import LANES, PATIENT, how_many, near

pytestmark = PATIENT
TWO = Setup(servers=2)


@pytest.mark.feature("F5", "F11", "C3", "F6")
@pytest.mark.parametrize("lane", range(LANES))
def test_schedules_of_two_servers_hold(lane: int, pytestconfig: pytest.Config):
    for seed in range(lane, how_many(pytestconfig) // 4, LANES):
        said = failure(schedule(seed, servers=2), TWO)
        assert not said, f"{said}; see `python -m tests.support.simulation --servers 2 --seed {seed}`"


def test_three_servers_hold_too():
    for seed in range(30 if is_thorough() else 6):
        assert not failure(schedule(seed, servers=3), Setup(servers=3)), seed


# --- planted defects --------------------------------------------------------------------------------------------
def writes_are_not_fenced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Lease, "fence", lambda _self, _connection: None)


def effects_are_not_fenced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Loop, "held", lambda self, name: self.store.load(name))


def a_lease_never_expires(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Lease, "_is_free_by_time", property(lambda _self: false()))


def a_server_that_takes_over_reads_no_jobs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SqlStore, "unfinished", lambda _self: [])


PLANTED = {
    writes_are_not_fenced: 35, effects_are_not_fenced: 15, a_lease_never_expires: 7,
    a_server_that_takes_over_reads_no_jobs: 0,
}  # fmt: skip
"""Each with a seed that finds it."""


@pytest.mark.parametrize(("plant", "first"), PLANTED.items(), ids=[plant.__name__ for plant in PLANTED])
def test_a_planted_defect_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], first: int, monkeypatch: pytest.MonkeyPatch
):
    plant(monkeypatch)
    assert any(failure(schedule(seed, servers=2), TWO) for seed in near(first))
