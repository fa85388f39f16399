"""The control room without its threads, over a store that other servers may be over, too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path

import pytest

from drumbeat.control.service import Control, Request, Setting
from drumbeat.core.events import PublishOutputs, StartGang
from drumbeat.core.states import State
from drumbeat.ports import Change
from drumbeat.protocol.agent import AgentStatus, Phase, RankExit
from drumbeat.protocol.errors import AwayError
from drumbeat.protocol.roster import Member
from drumbeat.stores.folder import FolderArtifacts
from drumbeat.testing.clock import FakeClock
from drumbeat.testing.engine import FakeEngine
from drumbeat.testing.memory_store import MemoryStore

pytestmark = pytest.mark.feature("F5", "F10")

JOB = {"name": "j", "command": "python t.py", "outputs": {"model": {"type": "uri_folder", "name": "best"}}}


class Shared(MemoryStore):
    """A database over a network. lost: the state of the job whose next commit is written, and its answer lost.

    meanwhile: called between a commit and its answer.
    """

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(monotonic=clock.monotonic)
        self.lost: State | None = None
        self.meanwhile: Callable[[], object] = int

    def commit(self, token: int, changes: Sequence[Change]) -> None:
        super().commit(token, changes)
        self.meanwhile()
        if any(change.job.state is self.lost for change in changes):
            self.lost = None
            raise AwayError("the connection was cut")


class House:
    """A server whose threads the test plays, and the agent of its job."""

    def __init__(self, folder: Path) -> None:
        self.clock, self.engine, self.artifacts = FakeClock(), FakeEngine(), FolderArtifacts(folder)
        self.store = Shared(self.clock)
        engines = {"local": self.engine}
        self.control = Control(Setting(self.store, self.artifacts, engines, self.clock, b"key", is_alone=False))
        self.control.open()
        self.control.engines.look()

    def submit(self) -> None:
        self.control.submit(Request(JOB, key="k"))

    def carry_out(self, kind: type) -> None:
        for pending in self.store.outbox():
            if isinstance(pending.effect, kind):
                self.control.effects.carry_out(pending)

    def say(self, phase: Phase) -> None:
        exits = (RankExit(0, 0, None, 1.0, 0),) if phase is not Phase.READY else ()
        status = AgentStatus(phase, 1, Member(0, "h", "127.0.0.1", "/r", "/c"), 2000, exits)
        self.control.agent_said("j", 1, 0, self.engine.gangs["j.1"].secret, status)

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
    house.submit()
    house.control.loop.place()
    house.carry_out(StartGang)
    house.say(Phase.READY)
    house.say(Phase.ENDED)
    house.keep_output()
    house.store.lost = State.COMPLETED
    with pytest.raises(AwayError):
        house.say(Phase.UPLOADED)
    house.carry_out(PublishOutputs)
    assert [one.asset for one in house.store.load("j").job.published] == ["best:1"]


def test_an_agent_that_calls_before_the_answer_to_its_grant_is_none_of_an_old_attempt(house: House):
    house.submit()
    asked: list[int] = []
    house.store.meanwhile = lambda: asked.append(house.control._current("j", 1).attempt)
    house.control.loop.place()
    assert asked == [1]
