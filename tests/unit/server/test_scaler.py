"""The scaling of a compute in a control room, with machines that a test plays."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from drumbeat.core.scheduling.autoscaling import LEAVE_TIME
from drumbeat.core.scheduling.resource_needs import Slot
from drumbeat.jobfile.compute.computes import Compute
from drumbeat.model.api.computes import Machine, NodeState, Scale
from drumbeat.model.api.requests import JobRequest
from drumbeat.model.errors import RefusedError
from drumbeat.model.states import Reason, State
from drumbeat.ports.engines import ElasticEngine, Engine
from drumbeat.server.computes import scaler
from drumbeat.server.computes.agent_addresses import Endpoints
from drumbeat.server.control import Control, Setting
from drumbeat.server.home_folder import FolderArtifacts
from tests.support.fake_clock import FakeClock
from tests.support.fake_engine import FakeEngine
from tests.support.memory_store import MemoryStore

pytestmark = pytest.mark.feature("C1", "C2")

LAB: dict[str, object] = {
    "name": "lab", "type": "netlab", "nodes": 3, "min_instances": 0, "idle_time_before_scale_down": 60,
}  # fmt: skip


@dataclass
class ElasticLab(FakeEngine):
    """Three machines of one slot that start and stop when they are asked to."""

    states: dict[str, NodeState] = field(default_factory=lambda: dict.fromkeys("abc", NodeState.OFF))
    usual_s: float | None = None

    def machines(self) -> list[Machine]:
        return [
            Machine(name, 1, unusable="" if state is NodeState.IDLE else f"it is {state}", state=state)
            for name, state in self.states.items()
        ]

    def usual_start_s(self) -> float | None:
        return self.usual_s

    def switch_on(self, names: Sequence[str]) -> None:
        self.states |= dict.fromkeys(names, NodeState.PREPARING)

    def let_go(self, names: Sequence[str], *, is_leaving: bool) -> None:
        self.states |= dict.fromkeys(names, NodeState.LEAVING if is_leaving else NodeState.IDLE)

    def switch_off(self, names: Sequence[str]) -> None:
        self.states |= dict.fromkeys(names, NodeState.OFF)


class FixedCluster(FakeEngine):
    """A cluster with a queue of its own and numbers of its own."""

    def machines(self) -> list[Machine]:
        return [Machine(name, 4) for name in "abc"]

    def scale(self) -> Scale:
        return Scale(1, 3, 300, 600, set_by={"min_instances": "SuspendExcNodes", "max_instances": "partition main"})


@dataclass
class Town:
    control: Control
    clock: FakeClock
    made: list[FakeEngine]

    @property
    def lab(self) -> ElasticLab:
        lab = self.made[-1]
        assert isinstance(lab, ElasticLab)
        return lab

    def look(self, after_s: float = 0) -> None:
        self.clock.advance(after_s)
        self.control.compute_watch.look()
        self.control.loop.place()

    def carry_out(self) -> None:
        for pending in self.control.store.outbox():
            self.control.outbox.carry_out(pending)

    def submit(self, name: str, nodes: int = 1, compute: str = "lab") -> None:
        document = {"command": "true", "name": name, "compute": compute, "resources": {"instance_count": nodes}}
        self.control.jobs.submit(JobRequest(document))

    def job(self, name: str):
        return self.control.store.load(name).job


@pytest.fixture
def town(tmp_path: Path) -> Iterator[Town]:
    there = make_town(tmp_path)
    yield there
    there.control.store.close()


def make_town(folder: Path) -> Town:
    made: list[FakeEngine] = []
    clock = FakeClock()

    def make(spec: Compute) -> Engine:
        made.append(ElasticLab(name="netlab") if spec.type == "netlab" else FixedCluster(name="slurm", has_queue=True))
        return made[-1]

    setting = Setting(
        MemoryStore(), FolderArtifacts(folder), {"local": FakeEngine()}, clock, b"key", make_engine=make,
        endpoints=Endpoints(("http://127.0.0.1:1",)),
    )  # fmt: skip
    control = Control(setting)
    control.open()
    return Town(control, clock, made)


def test_elastic_lab_implements_elastic_engine():
    assert isinstance(ElasticLab(), ElasticEngine)
    assert not isinstance(FakeEngine(), ElasticEngine)


def test_machines_start_for_a_waiting_job_and_stop_when_idle(town: Town):
    town.control.computes.create(LAB)
    town.lab.usual_s = 4.0
    town.submit("a", nodes=2)
    town.look()
    town.look()
    assert town.lab.states == {"a": NodeState.PREPARING, "b": NodeState.PREPARING, "c": NodeState.OFF}
    assert (town.job("a").state, town.job("a").reason) == (State.QUEUED, Reason.WAITING_FOR_SLOTS)
    assert town.job("a").sentence == "waits for a and b, which are being started (usually 4 s here)"
    town.lab.states |= dict.fromkeys("ab", NodeState.IDLE)
    town.look()
    assert {slot.machine for slot in town.job("a").slots} == {"a", "b"}
    town.look(3600)
    assert town.lab.states["a"] is NodeState.IDLE, "nothing is scaled down under a job"
    machines = town.control.computes.show("lab").machines
    assert [machine.state for machine in machines] == [NodeState.RUNNING, NodeState.RUNNING, NodeState.OFF]

    town.control.jobs.cancel("a", by="ann")
    town.carry_out()
    town.look()
    town.look(59)
    assert town.lab.states["a"] is NodeState.IDLE
    town.look(1)
    assert [town.lab.states[name] for name in "ab"] == [NodeState.LEAVING] * 2
    town.look(LEAVE_TIME.total_seconds())
    assert set(town.lab.states.values()) == {NodeState.OFF}


def test_a_machine_that_leaves_stays_for_a_job_that_comes(town: Town):
    town.control.computes.create(LAB)
    town.lab.states["a"] = NodeState.LEAVING
    town.submit("a")
    town.look()
    town.look()
    assert town.lab.states["a"] is NodeState.IDLE
    assert [slot.machine for slot in town.job("a").slots] == ["a"]


def test_limits_change_while_a_job_runs_and_the_engine_stays(town: Town):
    town.control.computes.create(LAB)
    town.lab.states["a"] = NodeState.IDLE
    town.submit("a")
    town.look()
    assert town.job("a").slots
    scaled = town.control.computes.scale("lab", {"min_instances": 2})
    assert len(town.made) == 1
    assert scaled.spec == {**LAB, "min_instances": 2}
    assert scaled.scale == Scale(2, 3, 60.0, usual_start_s=None)
    town.look()
    assert sorted(map(str, town.lab.states.values())) == ["idle", "off", "preparing"]
    _, is_new = town.control.computes.create({**LAB, "min_instances": 1})
    assert (is_new, len(town.made)) == (False, 1)


def test_compute_with_a_fixed_number_of_machines_cannot_be_scaled(town: Town):
    with pytest.raises(RefusedError, match=r"compute local \(fake\) has a fixed number of machines"):
        town.control.computes.scale("local", {"max_instances": 2})


def test_a_cap_below_a_cluster_s_number_is_kept_and_other_wishes_are_remarked_on(town: Town):
    document = {"name": "rack", "type": "slurm", "folder": "/shared", "min_instances": 0, "max_instances": 2}
    made, _ = town.control.computes.create(document)
    assert made.scale is not None
    assert (made.scale.min_instances, made.scale.max_instances, made.scale.idle_time_s) == (1, 2, 300)
    (remark,) = made.remarks
    assert remark == (
        "min_instances is 0 in the compute's file, and 1 in the cluster, where SuspendExcNodes sets it: the cluster's "
        "is in effect"
    )
    town.submit("first", nodes=2, compute="rack")
    town.look()
    town.submit("second", compute="rack")
    town.look()
    assert town.job("first").state is State.PROVISIONING
    assert town.job("second").sentence == (
        "needs 1 node of rack, which has at most 2 at a time (max_instances), 2 in use; held by first"
    )
    town.submit("large", nodes=3, compute="rack")
    town.look()
    assert town.job("large").reason is Reason.TOO_BIG
    raised = town.control.computes.scale("rack", {"max_instances": 9})
    assert raised.remarks[-1] == "max_instances is 9 in the compute's file, and the cluster has 3 (partition main)"
    town.look()
    assert town.job("second").state is State.PROVISIONING


def test_idle_machine_stops_after_two_minutes_by_default():
    assert scaler.DEFAULT_IDLE_TIME_S == 120


class Scaled(RuleBasedStateMachine):
    """Jobs come and go, machines start, fail and stop, numbers change, time passes: in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.town = make_town(Path(self.folder.name))
        self.town.control.computes.create(LAB)
        self.jobs: list[str] = []

    def teardown(self) -> None:
        self.town.control.store.close()
        self.folder.cleanup()

    @rule(nodes=st.integers(1, 3))
    def submit(self, nodes: int) -> None:
        self.jobs.append(f"j{len(self.jobs)}")
        self.town.submit(self.jobs[-1], nodes)

    @rule(which=st.integers(0, 99))
    def cancel(self, which: int) -> None:
        living = [name for name in self.jobs if not self.town.job(name).state.is_terminal]
        if living:
            self.town.control.jobs.cancel(living[which % len(living)], by="ann")
            self.town.carry_out()

    @rule()
    def machines_come(self) -> None:
        lab = self.town.lab
        coming = [name for name, state in lab.states.items() if state is NodeState.PREPARING]
        lab.states |= dict.fromkeys(coming, NodeState.IDLE)

    @rule(name=st.sampled_from("abc"))
    def machine_fails_to_come(self, name: str) -> None:
        if self.town.lab.states[name] is NodeState.PREPARING:
            self.town.lab.states[name] = NodeState.OFF

    @rule(fewest=st.integers(0, 3), most=st.integers(1, 3))
    def scale(self, fewest: int, most: int) -> None:
        if fewest <= most:
            self.town.control.computes.scale("lab", {"min_instances": fewest, "max_instances": most})

    @rule(seconds=st.sampled_from([0, 1, 5, 61]))
    def time_passes(self, seconds: int) -> None:
        before = dict(self.town.lab.states)
        held = {slot.machine for slot in self.held()}
        self.town.look(seconds)
        off = {name for name, state in self.town.lab.states.items() if state is NodeState.OFF}
        gone = {name for name in off if before[name] is not NodeState.OFF}
        assert not gone & held, "a machine is switched off under a job"
        assert all(before[name] is NodeState.LEAVING for name in gone), "a machine goes without having left"

    @invariant()
    def what_a_job_holds_is_on(self) -> None:
        states = self.town.lab.states
        assert all(states[slot.machine] in (NodeState.IDLE, NodeState.LEAVING) for slot in self.held())

    @invariant()
    def a_job_that_waits_says_for_what(self) -> None:
        for name in self.jobs:
            job = self.town.job(name)
            assert job.state is not State.QUEUED or job.sentence

    def held(self) -> list[Slot]:
        return [one.slot for one in self.town.control.store.reservations("lab")]


TestScaled = Scaled.TestCase
TestScaled.settings = settings(max_examples=25, stateful_step_count=40, deadline=None)


def test_lasting_failure_to_start_machines_is_logged_once(
    town: Town, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    town.control.computes.create(LAB)

    def fail(names: Sequence[str]) -> None:
        raise OSError("the switch is locked")

    monkeypatch.setattr(town.lab, "switch_on", fail)
    town.submit("a")
    for _ in range(4):
        town.look(1)
    assert [record.levelname for record in caplog.records].count("ERROR") == 1
    monkeypatch.undo()
    town.look(1)
    assert NodeState.PREPARING in town.lab.states.values()
