"""Several servers over one store: schedules of their faults hold, and a defect that is planted is found."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime

import pytest
from sqlalchemy import Connection, delete, insert, update

from drumbeat.control.loop.loop import Loop
from drumbeat.control.loop.peers import PeerServers
from drumbeat.control.loop.placer import Placer
from drumbeat.core.life.events import CancelRequested
from drumbeat.ports import Change, Head, Letter
from drumbeat.stores.sql import SqlStore, jobs, leases
from drumbeat.stores.sql.schema import jobs as job_table
from drumbeat.stores.sql.schema import servers
from tests.runs import is_thorough
from tests.support.simulation.action import Action
from tests.support.simulation.schedules import schedule
from tests.support.simulation.shrink import Setup, failure

from .seeds import LANES, PATIENT, how_many, near

pytestmark = PATIENT
TWO = Setup(servers=2)


@pytest.mark.feature("F5", "C3", "F6")
@pytest.mark.parametrize("lane", range(LANES))
def test_schedules_of_two_servers_hold(lane: int, pytestconfig: pytest.Config):
    for seed in range(lane, how_many(pytestconfig) // 4, LANES):
        said = failure(schedule(seed, servers=2), TWO)
        assert not said, f"{said}; see `python -m tests.support.simulation --servers 2 --seed {seed}`"


def test_three_servers_hold_too():
    for seed in range(30 if is_thorough() else 12):
        assert not failure(schedule(seed, servers=3), Setup(servers=3)), seed


# --- planted defects --------------------------------------------------------------------------------------------
def everybody_runs_every_effect(patch: pytest.MonkeyPatch) -> None:
    outbox = SqlStore.outbox
    patch.setattr(SqlStore, "outbox", lambda self, _token=None: outbox(self))
    patch.setattr(Loop, "held", lambda self, name: self.store.load(name))


def a_gang_that_was_started_too_late_stays(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("drumbeat.control.gangs.start_gang.is_wanted", lambda _job, _attempt: True)


def a_silent_server_keeps_what_it_has(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SqlStore, "claim", lambda _self, _token: list[str]())


def what_was_claimed_is_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    def own(_self: PeerServers, loop: Loop, heads: Iterable[Head]) -> None:
        names = {head.name for head in heads}
        loop.jobs = {name: record for name, record in loop.jobs.items() if name in names}

    patch.setattr(PeerServers, "_own", own)


def leases_are_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    def rewrite(connection: Connection, token: int, change: Change) -> None:
        columns = {"version": change.version + 1, "lease": token, **jobs._columns(change.job)}
        connection.execute(update(job_table).where(job_table.c.name == change.job.name).values(**columns))

    patch.setattr(jobs, "rewrite", rewrite)
    patch.setattr(jobs.Remembered, "get", lambda *_: None)  # There are several jobs of one version then.
    patch.setattr(leases, "require_live", come_back)
    patch.setattr(leases, "beat", come_back)


def come_back(connection: Connection, token: int) -> None:
    """A server that was replaced is there again, as if nobody had noticed."""
    this = update(servers).where(servers.c.token == token).values(beats=servers.c.beats + 1)
    if not connection.execute(this).rowcount:
        connection.execute(insert(servers).values(token=token, beats=0, started_at=datetime.now(UTC), address=""))


def messages_are_forgotten_before_they_are_acted_on(patch: pytest.MonkeyPatch) -> None:
    waiting = SqlStore.inbox

    def inbox(self: SqlStore, token: int) -> list[Letter]:
        found = waiting(self, token)
        self.heard(one.id for one in found)
        return [one for one in found if one.id % 3]

    patch.setattr(SqlStore, "inbox", inbox)


def letters_are_never_done_with(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("drumbeat.stores.sql.inbox.remove", lambda _connection, _letters: None)


def a_cancel_is_forgotten_before_it_is_acted_on(patch: pytest.MonkeyPatch) -> None:
    hear = PeerServers._hear

    def forgets(self: PeerServers, loop: Loop) -> None:
        found = loop.store.inbox(loop.token)
        loop.store.heard(one.id for one in found if isinstance(one.message, CancelRequested))
        hear(self, loop)

    patch.setattr(PeerServers, "_hear", forgets)


def a_message_is_told_to_nobody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SqlStore, "post", lambda _self, _job, _message: None)


def a_server_that_leaves_takes_its_jobs_along(patch: pytest.MonkeyPatch) -> None:
    def leave(connection: Connection, token: int) -> None:
        connection.execute(delete(servers).where(servers.c.token == token))

    patch.setattr(leases, "leave", leave)


def nobody_hears_of_what_others_gave_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PeerServers, "_notice", lambda _self, _loop, _heads: None)


PLANTED = {
    everybody_runs_every_effect: 0, a_gang_that_was_started_too_late_stays: 2762, a_silent_server_keeps_what_it_has: 0,
    what_was_claimed_is_not_looked_at: 0, leases_are_not_looked_at: 38,
    messages_are_forgotten_before_they_are_acted_on: 38,
    letters_are_never_done_with: 0, a_cancel_is_forgotten_before_it_is_acted_on: 11,
    a_message_is_told_to_nobody: 2409,
    a_server_that_leaves_takes_its_jobs_along: 0, nobody_hears_of_what_others_gave_back: 35,
}  # fmt: skip
"""Each with a seed that finds it."""


@pytest.mark.parametrize(("plant", "first"), PLANTED.items(), ids=[plant.__name__ for plant in PLANTED])
def test_a_planted_defect_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], first: int, monkeypatch: pytest.MonkeyPatch
):
    plant(monkeypatch)
    assert any(failure(schedule(seed, servers=2), TWO) for seed in near(first))


def test_a_server_that_is_stopped_while_it_places_gives_no_slots_that_another_gave_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
):
    meanwhile = [Action("submit", 5, 13), Action("place", 0, 1)]  # All six slots, with a higher priority.
    actions = [Action("submit", 3, 0), Action("server_will_stop", 47, 0), Action("place", 0, 0), *meanwhile]
    assert not failure(actions, TWO)
    tell = Placer._tell
    monkeypatch.setattr(Placer, "_tell", lambda self, placed, _booked, _in_all: tell(self, placed, None, None))
    assert failure(actions, TWO) == "Violation: 10 of 6 slots are held"
