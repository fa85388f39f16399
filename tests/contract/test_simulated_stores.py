"""Schedules of faults over the real stores: what the memory store promises, they keep under the same faults."""

import pytest

from drumbeat.control.loop.peers import PeerServers
from drumbeat.core.life.events import CancelRequested
from tests.support.simulation.__main__ import in_database
from tests.support.simulation.schedules import schedule
from tests.support.simulation.shrink import Setup, failure
from tests.unit.simulation.seeds import PATIENT, how_many

pytestmark = [pytest.mark.contract, pytest.mark.feature("F5"), *PATIENT]

SHARE = 125
"""A schedule takes a hundred times longer than in memory: this many times fewer are run."""


@pytest.mark.parametrize("servers", [1, 2])
def test_schedules_hold_over_sqlite(tmp_path, servers, pytestconfig):
    setup = Setup(servers, in_database(tmp_path / "drumbeat.db"))
    for seed in range(how_many(pytestconfig) // SHARE // servers**2):
        assert not failure(schedule(seed, servers), setup), seed


@pytest.mark.xdist_group("postgres")
@pytest.mark.thorough
@pytest.mark.parametrize("servers", [1, 2])
def test_schedules_hold_over_postgresql(postgres, servers, pytestconfig):
    with postgres.database() as name:
        setup = Setup(servers, in_database(postgres.url(name)))
        for seed in range(how_many(pytestconfig) // SHARE // 2 // servers**2):
            assert not failure(schedule(seed, servers), setup), seed


def letters_are_never_done_with(patch):
    patch.setattr("drumbeat.stores.sql.inbox.remove", lambda _connection, _letters: None)


def a_cancel_is_forgotten_before_it_is_acted_on(patch):
    hear = PeerServers._hear

    def forgets(self, loop):
        found = loop.store.inbox(loop.token)
        loop.store.heard(one.id for one in found if isinstance(one.message, CancelRequested))
        hear(self, loop)

    patch.setattr(PeerServers, "_hear", forgets)


PLANTED = {
    letters_are_never_done_with: (0, 15, "messages were never heard"),
    a_cancel_is_forgotten_before_it_is_acted_on: (11, 80, "the cancel of j4 was lost"),
}
"""Each with the seed and the number of actions that find it, and the words of the violation."""


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_planted_defect_of_letters_is_found_over_sqlite(tmp_path, monkeypatch, plant):
    seed, actions, words = PLANTED[plant]
    plant(monkeypatch)
    assert words in failure(schedule(seed, 2)[:actions], Setup(2, in_database(tmp_path / "drumbeat.db")))
