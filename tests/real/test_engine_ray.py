"""The engine over a real Ray cluster keeps the engine's promises, and what Ray does to a job is told as it is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from drumbeat.core.lifecycle.events import Loss
from drumbeat.engines.contract import EngineContract, a_gang, stop
from drumbeat.engines.netlab.lab import require_tools
from drumbeat.engines.ray.engine import RayEngine
from drumbeat.jobfile.compute.ray import RayCompute
from drumbeat.model.errors import EngineError
from drumbeat.node.host.processes import command_lines
from drumbeat.ports.engines import Engine, Gang, GangStatus
from tools.raylab import environment
from tools.raylab.lab import RayLab, ray_lab, until

from .guard import guarded

pytestmark = [pytest.mark.feature("C4"), pytest.mark.thorough, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayLab]:
    try:
        require_tools()
    except EngineError as error:
        pytest.skip(str(error))
    if why := environment.made():
        pytest.skip(why)
    folder = tmp_path_factory.mktemp("ray")
    with guarded(folder), ray_lab(folder, "rl", 4, environment.PYTHON, head_cpus=0) as lab:
        yield lab


@pytest.fixture
def lab(made: RayLab) -> Iterator[RayLab]:
    yield made
    if len(made.alive()) < len(made.nodes):
        made.mend()


Make = Callable[..., RayEngine]


@pytest.fixture
def make(lab: RayLab) -> Iterator[Make]:
    engines: list[RayEngine] = []

    def make(mark: str = "ab12cd", **keys: Any) -> RayEngine:
        own = {"name": "rack", "type": "ray", "address": lab.dashboard, "token_file": str(lab.token_file)}
        own |= {"folder": f"{lab.folder}/checkpoints"}
        engine = RayEngine(RayCompute.model_validate({**own, **keys}), mark)
        engine.leave_s, engine.poller.busy_s = 0.1, 0.5
        engines.append(engine)
        return engine

    yield make
    for engine in engines:
        engine.close()


def seen(engine: Engine, gang: Gang, holds: Callable[[GangStatus], object]) -> GangStatus:
    deadline = time.monotonic() + 120
    while not holds(sighting := engine.observe(gang)):
        assert time.monotonic() < deadline, sighting
        time.sleep(0.05)
    return sighting


def is_running(sighting: GangStatus) -> bool:
    return sighting.word == "ALIVE" and not sighting.waits


def machine_of(lab: RayLab, node: int) -> str:
    """The machine of a node of the only gang."""
    names = {one["node_id"]: one["node_name"] for one in lab.listed("nodes")}
    actors = [one for one in lab.listed("actors") if one["state"] == "ALIVE" and one["name"].endswith(f"/{node}")]
    return names[actors[0]["node_id"]]


def agents(lab: RayLab) -> list[str]:
    """The command lines of agents in the cluster."""
    lines = [" ".join(words) for _, words in command_lines()]
    return [line for line in lines if "drumbeat.node.agent " in line and f"-{lab.lab.name}-" in line]


def job_states(engine: RayEngine) -> set[str]:
    """Of all jobs that Ray lists."""
    return {one["status"] for one in engine._dashboard.jobs().values()}


class TestContract(EngineContract):
    @pytest.fixture
    def engine(self, make: Make) -> Engine:
        return make()

    @pytest.fixture
    def lose(self, lab: RayLab, engine: RayEngine) -> Callable[[Gang, int], None]:
        def lose(gang: Gang, node: int) -> None:
            seen(engine, gang, is_running)
            lab.lab.switch_off(machine_of(lab, node))

        return lose


def test_gang_holds_its_machines_and_leaves_nothing(make: Make, lab: RayLab):
    engine, gang = make(), a_gang(nodes=2)
    try:
        engine.start(gang)
        seen(engine, gang, is_running)
        assert len({machine_of(lab, node) for node in (0, 1)}) == 2, "each node of a gang has a machine of its own"
        until(lambda: len(agents(lab)) == 2, "both agents run")
    finally:
        stop(engine, gang.name)
    assert agents(lab) == []
    assert [one["name"] for one in lab.listed("placement_groups") if one["state"] != "REMOVED"] == []
    assert not [one for one in lab.listed("actors") if one["state"] == "ALIVE" and one["ray_namespace"] == "drumbeat"]
    assert engine.sweep(set) == []


def test_worker_that_is_killed_leaves_its_agent_alone_and_the_gang_can_be_ended(make: Make, lab: RayLab):
    engine, gang = make(), a_gang(nodes=2)
    try:
        engine.start(gang)
        seen(engine, gang, is_running)
        until(lambda: "RUNNING" not in job_states(engine), "the job that starts it has ended")
        actor = next(one for one in lab.listed("actors") if one["state"] == "ALIVE" and one["name"].endswith("/1"))
        lab.on(machine_of(lab, 1), "kill", "-9", str(actor["pid"]))
        sighting = seen(engine, gang, lambda sighting: "its agent may continue" in sighting.word)
        assert sighting.gone == {}
        assert len(agents(lab)) == 2
    finally:
        stop(engine, gang.name)
    assert agents(lab) == []


def test_gang_without_room_waits_and_is_started_when_there_is_some(make: Make, lab: RayLab):
    engine, first, second = make(cpus_per_node=2), a_gang(nodes=3), a_gang(nodes=3, attempt=2)
    try:
        engine.start(first)
        seen(engine, first, is_running)
        engine.start(second)
        sighting = seen(engine, second, lambda sighting: "NO_RESOURCES" in sighting.word)
        assert sighting.waits
        until(lambda: job_states(engine).isdisjoint(("PENDING", "RUNNING")), "no job waits on the head")
        stop(engine, first.name)
        seen(engine, second, is_running)
    finally:
        stop(engine, first.name)
        stop(engine, second.name)


def test_python_that_is_not_on_the_machines_fails_with_the_sentence(make: Make):
    engine, gang = make(python="/no/python3"), a_gang(nodes=1)
    try:
        engine.start(gang)
        sighting = seen(engine, gang, lambda sighting: sighting.gone)
        assert sighting.cause is Loss.FAILED
        assert "/no/python3" in sighting.gone[0]
    finally:
        stop(engine, gang.name)


def test_second_server_of_the_same_home_finds_the_gang_and_another_ones_leaves_it_alone(make: Make):
    engine, gang = make(), a_gang(nodes=1)
    engine.start(gang)
    seen(engine, gang, is_running)
    again, other = make(), make("ffffff")
    again.start(gang)
    seen(again, gang, is_running)
    assert other.sweep(set) == []
    assert again.sweep(lambda: {gang.name}) == []
    assert again.sweep(set) == [gang.name]


@pytest.mark.feature("C6")
def test_machine_that_is_drained_is_told_early_and_then_counts_as_preempted(make: Make, lab: RayLab):
    engine, gang = make(), a_gang(nodes=2)
    try:
        engine.start(gang)
        seen(engine, gang, is_running)
        machine = machine_of(lab, 1)
        lab.drain(machine, 30)
        sighting = seen(engine, gang, lambda sighting: sighting.leaving)
        assert list(sighting.leaving.values()) == [f"Ray is draining machine {machine}"]
        assert sighting.gone == {}
        lab.lab.switch_off(machine)
        sighting = seen(engine, gang, lambda sighting: sighting.gone)
        assert (sighting.cause, list(sighting.gone)) == (Loss.PREEMPTED, [1])
    finally:
        stop(engine, gang.name)
