"""The control room without its threads, over a store that other servers may be over, too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path

import pytest

from drumbeat.core.lifecycle.events import KeepEvents, PlacementDeferred, PublishOutputs, StartGang, StopGang
from drumbeat.core.lifecycle.output_publication import FOLLOWER_TIMEOUT, MAX_FOLLOWED_TRIES, is_over
from drumbeat.model.agent import AgentStatus, Phase, RankExit
from drumbeat.model.api.requests import JobRequest
from drumbeat.model.errors import AwayError, StandbyError, StorageError
from drumbeat.model.roster import Member
from drumbeat.model.states import Reason, State
from drumbeat.server.control import Control, Setting
from drumbeat.server.database import LeaseRules
from drumbeat.server.database.records import Change
from drumbeat.server.home_folder import FolderArtifacts
from drumbeat.server.home_folder.stored_files import StoredFile
from drumbeat.server.loop.bus import job_topic
from tests.support.fake_clock import FakeClock
from tests.support.fake_engine import FakeEngine
from tests.support.memory_store import JobsDatabase, MemoryStore

from .house import until

pytestmark = pytest.mark.feature("F5")

JOB = {"name": "j", "command": "python t.py", "outputs": {"model": {"type": "uri_folder", "name": "best"}}}


class Shared(MemoryStore):
    """A database over a network. lost: the state of the job whose next commit is written, and its answer lost.

    meanwhile: called between a commit and its answer.
    """

    def __init__(self, database: JobsDatabase, clock: FakeClock) -> None:
        super().__init__(database, LeaseRules(is_alone=False, now=clock.monotonic))
        self.lost: State | None = None
        self.meanwhile: Callable[[], object] = int

    def commit(self, changes: Sequence[Change]) -> None:
        super().commit(changes)
        self.meanwhile()
        if any(change.job.state is self.lost for change in changes):
            self.lost = None
            raise AwayError("the connection was cut")


class House:
    """A server whose threads the test plays, and the agent of its job. other: over the same database."""

    def __init__(self, folder: Path, other: House | None = None) -> None:
        self.clock, self.engine = (other.clock, other.engine) if other else (FakeClock(), FakeEngine())
        self.artifacts = FolderArtifacts(folder)
        self.store = Shared(other.store.database if other else JobsDatabase(), self.clock)
        engines = {"local": self.engine}
        self.control = Control(Setting(self.store, self.artifacts, engines, self.clock, b"key"))
        self.control.open()
        self.control.engines.look()

    def submit(self, nodes: int = 1) -> None:
        self.control.jobs.submit(JobRequest({**JOB, "resources": {"instance_count": nodes}}, key="k"))

    def carry_out(self, kind: type) -> None:
        for pending in self.store.outbox():
            if isinstance(pending.effect, kind):
                self.control.outbox.carry_out(pending)

    def say(self, phase: Phase, node: int = 0, serial: int = 0) -> None:
        exits = (RankExit(0, 0, None, 1.0, 0),) if phase in (Phase.ENDED, Phase.UPLOADED) else ()
        status = AgentStatus(phase, 1, Member(node, "h", "127.0.0.1", "/r", "/c"), 2000, exits, serial=serial)
        self.control.agents.report("j", 1, node, self.engine.gangs["j.1"].node_secret(node), status)

    def run_to_end(self) -> None:
        self.submit()
        self.control.loop.place()
        self.carry_out(StartGang)
        for phase in (Phase.READY, Phase.ENDED):
            self.say(phase)
        self.keep_output()
        self.say(Phase.UPLOADED)

    def keep_output(self) -> None:
        self.artifacts.append_output("j", 1, 0, "model/a", 0, b"a")
        assert self.artifacts.commit_outputs("j", 1, 0, {"model/a": (1, sha256(b"a").hexdigest())}) == []


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def test_a_start_is_noted_although_the_answer_to_its_grant_was_lost(house: House):
    house.submit()
    house.store.lost = State.PROVISIONING
    with pytest.raises(AwayError):
        house.control.loop.place()
    house.carry_out(StartGang)
    assert house.store.load("j").job.observed is not None
    house.say(Phase.READY)
    assert house.store.load("j").job.state is State.RUNNING


def test_an_output_is_noted_although_the_answer_to_the_jobs_end_was_lost(house: House):
    house.store.lost = State.COMPLETED
    with pytest.raises(AwayError):
        house.run_to_end()
    house.carry_out(PublishOutputs)
    assert [one.asset for one in house.store.load("j").job.published] == ["best:1"]


def test_agent_that_calls_before_its_grant_is_stored_belongs_to_the_new_attempt(house: House):
    house.submit()
    asked: list[int] = []
    house.store.meanwhile = lambda: asked.append(house.control.agents._current("j", 1).attempt)
    house.control.loop.place()
    assert asked == [1]


def test_job_whose_last_change_is_unsure_is_read_again_at_the_next_tick(house: House):
    house.submit()
    house.store.lost = State.PROVISIONING
    with pytest.raises(AwayError):
        house.control.loop.place()
    house.control.loop.tick()
    assert house.control.loop.jobs["j"].job.state is State.PROVISIONING


@pytest.mark.feature("F11")
def test_replaced_server_steps_down_and_changes_nothing_more(house: House, tmp_path: Path):
    replaced: list[bool] = []
    house.control.standby.on_replaced = lambda: replaced.append(True)
    house.submit()
    house.clock.advance(20)
    successor = House(tmp_path, house)
    waits = PlacementDeferred(Reason.WAITING_FOR_SLOTS, "one is running")
    for refused in (lambda: house.control.loop.apply("j", waits), house.control.loop.tick, house.control.loop.tick):
        with pytest.raises(StandbyError):
            refused()
    assert (house.control.loop.jobs, house.control.is_active, house.control.standby.is_replaced) == ({}, False, True)
    assert replaced == [True]
    assert list(successor.control.loop.jobs) == ["j"]


@pytest.mark.feature("F11")
def test_server_that_stood_still_answers_from_the_store_and_not_from_memory(house: House, tmp_path: Path):
    house.submit()
    house.clock.advance(20)
    House(tmp_path, house).control.loop.place()
    assert house.control.loop.record("j").job.state is State.PROVISIONING


@pytest.mark.feature("F11")
def test_server_stopped_before_an_effect_does_not_run_it_later(house: House, tmp_path: Path):
    house.submit()
    house.control.loop.place()
    (pending,) = house.store.outbox()
    house.clock.advance(20)
    House(tmp_path, house).carry_out(StartGang)
    with pytest.raises(StandbyError):
        house.control.outbox.carry_out(pending)
    assert house.engine.started == ["j.1"]


@pytest.mark.feature("F11")
def test_server_that_stands_by_becomes_active_once_the_lease_is_free(house: House, tmp_path: Path):
    house.submit()
    standby = House(tmp_path, house).control
    assert (standby.is_active, standby.loop.jobs) == (False, {})
    house.control.loop.stop()
    assert standby.open()
    assert list(standby.loop.jobs) == ["j"]


@pytest.mark.feature("F10")
def test_store_without_writes_is_reported_after_a_while_until_it_accepts_one(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    def full(*_: object, **__: object) -> None:
        raise StorageError("the disk is full", fix="Make room on it.")

    loop = house.control.loop
    house.submit()
    rung: list[str] = []
    monkeypatch.setattr(house.control.bus, "publish", rung.append)
    with monkeypatch.context() as patch:
        patch.setattr(house.store, "renew_lease", full)
        patch.setattr(house.store, "commit", full)
        for _ in range(4):
            loop._guarded(loop.tick)
            loop._guarded(loop.place)
            assert loop.refused_writes.problem == ""
            house.clock.advance(0.5)
        loop._guarded(loop.tick)
        assert loop.refused_writes.problem == "the disk is full. Make room on it."
        assert rung[-1] == job_topic("j")
    loop._guarded(loop.tick)
    assert (
        loop.refused_writes.problem == "the disk is full. Make room on it."
    )  # A heartbeat may fit where no change does.
    loop.place()
    assert loop.refused_writes.problem == ""


@pytest.mark.feature("F10")
def test_refusal_after_which_nothing_is_tried_is_forgotten(house: House):
    loop = house.control.loop
    loop.refused_writes.add("the disk is full", loop.clock.monotonic())
    house.clock.advance(3)
    loop.refused_writes.add("the disk is full", loop.clock.monotonic())
    loop.tick()
    assert loop.refused_writes.problem == "the disk is full"
    house.clock.advance(5)
    loop.tick()
    assert loop.refused_writes.problem == ""


# --- outputs ----------------------------------------------------------------------------------------------------
def damaged(_job: str) -> list[StoredFile]:
    raise TypeError("list indices must be integers")


def test_unexpected_error_does_not_block_followers_of_a_job(house: House, monkeypatch: pytest.MonkeyPatch):
    house.run_to_end()
    monkeypatch.setattr(house.artifacts, "files", damaged)
    for _ in range(2):
        house.carry_out(PublishOutputs)
        house.clock.advance(FOLLOWER_TIMEOUT.total_seconds())
    job = house.store.load("j").job
    assert is_over(job)
    assert [(one.output, "TypeError: list indices" in one.why) for one in job.held_up] == [("model", True)]


@pytest.mark.feature("F10")
def test_clock_set_back_does_not_block_followers_of_a_job(house: House, monkeypatch: pytest.MonkeyPatch):
    house.run_to_end()
    house.clock.advance(-3600)
    monkeypatch.setattr(house.artifacts, "files", damaged)
    for _ in range(MAX_FOLLOWED_TRIES):
        house.carry_out(PublishOutputs)
        assert not is_over(house.store.load("j").job)
    house.carry_out(PublishOutputs)
    assert is_over(house.store.load("j").job)


@pytest.mark.feature("F10")
def test_outputs_that_cant_be_noted_are_put_in_their_places_again_ever_later(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    house.run_to_end()
    house.carry_out(StopGang)
    house.carry_out(KeepEvents)
    tries = list[float]()

    def full(*_: object) -> None:
        raise StorageError("the disk is full")

    def noted(changes: Sequence[Change]) -> None:
        del changes
        tries.append(house.clock.monotonic())
        full()

    monkeypatch.setattr("drumbeat.server.loop.outbox.RETRY_INTERVAL_S", 0.0)
    monkeypatch.setattr(house.store, "tried", full)
    monkeypatch.setattr(house.store, "commit", noted)
    for _ in range(20):
        house.control.outbox._hand_out()
        until(lambda: not house.control.outbox._busy)
        house.clock.advance(1)
    assert tries == [0, 1, 3, 7, 15]
