"""The engine over a Ray dashboard in memory: its promises, and what Ray does to a job."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from drumbeat.core.lifecycle.events import Loss
from drumbeat.core.scheduling.resource_needs import Slot
from drumbeat.engines.contract import EngineContract, a_gang
from drumbeat.engines.ray import engine as module
from drumbeat.engines.ray.dashboard import Dashboard
from drumbeat.engines.ray.engine import RayEngine
from drumbeat.jobfile.compute.ray import RayCompute
from drumbeat.model.api.computes import NodeState
from drumbeat.model.errors import EngineError, UnreachableError
from drumbeat.ports.engines import Engine, Gang, GangStatus, NoMachinesError

from .ray_cluster import FakeRay, kill

pytestmark = pytest.mark.feature("C4")

POLL_S = 0.02
PREFIX = "drumbeat-rack-ab12cd-"


def spec(**keys: Any) -> RayCompute:
    return RayCompute.model_validate({"name": "rack", "type": "ray", "address": "http://10.0.0.1:8265", **keys})


@pytest.fixture
def cluster() -> FakeRay:
    return FakeRay()


Make = Callable[..., RayEngine]


@pytest.fixture
def make(cluster: FakeRay, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    monkeypatch.setattr(module, "END_PAUSE_S", 0.01)
    made: list[RayEngine] = []

    def make(mark: str = "ab12cd", **keys: Any) -> RayEngine:
        one = spec(**keys)
        engine = RayEngine(one, mark, Dashboard(one, cluster.transport))
        engine.leave_s, engine.poller.busy_s = 0.0, POLL_S
        made.append(engine)
        return engine

    yield make
    for engine in made:
        engine.close()


def seen(engine: Engine, gang: Gang, holds: Callable[[GangStatus], object]) -> GangStatus:
    deadline = time.monotonic() + 20
    while not holds(sighting := engine.observe(gang)):
        assert time.monotonic() < deadline, sighting
        time.sleep(POLL_S)
    return sighting


def lost(engine: Engine, gang: Gang) -> GangStatus:
    return seen(engine, gang, lambda sighting: sighting.gone)


def is_running(sighting: GangStatus) -> bool:
    return sighting.word == "ALIVE"


def started(engine: Engine, nodes: int = 2) -> Gang:
    gang = a_gang(nodes=nodes)
    engine.start(gang)
    seen(engine, gang, is_running)
    return gang


class TestContract(EngineContract):
    @pytest.fixture
    def engine(self, make: Make) -> Engine:
        return make()

    @pytest.fixture
    def lose(self, cluster: FakeRay) -> Callable[[Gang, int], None]:
        return lambda _, node: cluster.lose(node)


# --- machines -------------------------------------------------------------------------------------------------------
def test_machines_are_the_clusters_living_nodes_that_have_cpus(make: Make, cluster: FakeRay):
    cluster.nodes["id2"]["state"] = "DEAD"
    cluster.nodes["id3"]["resources_total"] = {"memory": 1.0}
    (machine,) = make().machines()
    assert (machine.name, machine.cpus, machine.gpus, machine.memory_mib) == ("n1", 4, ("0", "1"), 16384)
    assert make(cpus_per_node=2, gpus_per_node=1).machines()[0].gpus == ("0",)


@pytest.mark.feature("C1")
def test_machines_with_nodes_run_and_those_that_are_drained_leave(make: Make, cluster: FakeRay):
    engine = make()
    gang = started(engine)
    assert [str(one.state) for one in engine.machines()] == ["running", "running", "idle"]
    cluster.drain(1)
    seen(engine, gang, lambda sighting: sighting.leaving)
    assert [str(one.state) for one in engine.machines()] == ["running", "leaving", "idle"]


def test_machine_that_nodes_share_has_all_its_cpus(make: Make):
    assert [one.cpus for one in make(cpus_per_node=2, share_machines=True).machines()] == [4, 4, 4]


def test_only_machines_with_the_computes_resources_are_used(make: Make, cluster: FakeRay):
    cluster.nodes["id2"]["resources_total"]["a100"] = 1.0
    assert [one.name for one in make(resources={"a100": 1}).machines()] == ["n2"]


def test_machines_that_the_autoscaler_may_start_are_off(make: Make, cluster: FakeRay):
    cluster.nodes.clear()
    machines = make(max_instances=2, cpus_per_node=8).machines()
    assert [(one.cpus, one.state, one.unusable) for one in machines] == [(8, NodeState.OFF, "")] * 2


def test_cluster_without_a_fitting_machine_names_what_is_missing(make: Make, cluster: FakeRay):
    with pytest.raises(NoMachinesError, match=r"no machine of the Ray cluster has the `resources` .*\(a100: 1\)"):
        make(resources={"a100": 1}).machines()
    cluster.nodes.clear()
    with pytest.raises(NoMachinesError, match=r"no machine of the Ray cluster has CPUs.*set `max_instances`"):
        make().machines()


def test_cluster_that_may_grow_is_not_without_machines_while_its_numbers_are_read(make: Make, cluster: FakeRay):
    cluster.nodes.clear()
    engine = make(min_instances=0)
    assert engine.machines() == []
    engine._survey.is_over = True
    with pytest.raises(NoMachinesError):
        engine.machines()


SURVEY = {
    "head_node_type": "head",
    "max_workers": 3,
    "idle_timeout_minutes": 2,
    "available_node_types": {
        "head": {"max_workers": 0},
        "small": {"min_workers": 1, "max_workers": 2},
        "large": {"max_workers": 4},
    },
}


@pytest.mark.feature("C1")
def test_autoscaler_settings_are_read_once_and_shown(make: Make, cluster: FakeRay):
    cluster.survey = "a line of the raylet\n" + json.dumps({"event": "autoscaler", "config": SURVEY}) + "\n"
    cluster.nodes["id1"]["is_head_node"] = True
    engine = make(max_instances=9)
    wait_for(engine.scale, engine)
    scale = engine.scale()
    assert scale is not None
    assert (scale.min_instances, scale.max_instances, scale.idle_time_s) == (2, 4, 120)
    assert scale.set_by["max_instances"] == "max_workers of Ray's autoscaler"
    assert [one.state for one in engine.machines()] == [*[NodeState.IDLE] * 3, NodeState.OFF]
    assert cluster.jobs == {}
    gang = a_gang(nodes=4)
    engine.start(gang)
    seen(
        engine, gang, lambda sighting: "INFEASIBLE" in sighting.word and "autoscaler is starting mach" in sighting.word
    )


def test_cluster_whose_file_says_nothing_of_scaling_runs_no_job_for_it(make: Make, cluster: FakeRay):
    engine = make()
    engine.machines()
    engine._look()
    assert cluster.jobs == {}
    assert engine.scale() is None


def test_cluster_without_an_autoscaler_has_the_files_number(make: Make):
    engine = make(max_instances=5)
    wait_for(lambda: engine._survey.is_over, engine)
    assert engine.scale() is None
    assert len(engine.machines()) == 5


def wait_for(holds: Callable[[], object], engine: RayEngine) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        engine.machines()
        engine.poller.nudge()
        time.sleep(POLL_S)


def test_server_address_is_asked_for_where_the_way_to_the_dashboard_tells_none(make: Make):
    with pytest.raises(UnreachableError, match="Set `server_address`"):
        make(address="http://127.0.0.1:8265").server_addresses()
    assert make(server_address="10.1.1.1").server_addresses() == ["10.1.1.1"]


# --- requests -------------------------------------------------------------------------------------------------------
def test_token_is_read_from_its_file_for_each_request(make: Make, cluster: FakeRay, tmp_path: Path):
    file = tmp_path / "token"
    file.write_text("old\n")
    cluster.token = "new"
    engine = make(token_file=str(file))
    with pytest.raises(UnreachableError, match="doesn't accept the server's token"):
        engine.machines()
    file.write_text("new\n")
    engine.poller.nudge()
    started(engine)


def test_token_file_that_cant_be_read_is_named(make: Make, tmp_path: Path):
    with pytest.raises(UnreachableError, match=f"the token can't be read.*{tmp_path}/no"):
        make(token_file=f"{tmp_path}/no").machines()


def test_dashboard_that_is_away_loses_no_gang(make: Make, cluster: FakeRay):
    engine = make()
    gang = started(engine)
    cluster.is_away = True
    away = seen(engine, gang, lambda sighting: "doesn't answer" in sighting.word)
    assert (away.gone, away.word.split(";")[0]) == ({}, "ALIVE")
    cluster.is_away = False
    engine.poller.nudge()
    assert seen(engine, gang, is_running).gone == {}


def test_gang_that_runs_costs_no_request_of_its_own(make: Make, cluster: FakeRay):
    engine = make()
    started(engine)
    cluster.requests.clear()
    engine._look()
    assert {path for _, path in cluster.requests} <= {
        "/api/v0/nodes", "/api/v0/placement_groups", "/api/v0/actors", "/api/jobs/",
    }  # fmt: skip


# --- starts ---------------------------------------------------------------------------------------------------------
def test_servers_and_computes_on_one_cluster_keep_apart(make: Make, cluster: FakeRay):
    first, other = make(), make("ffffff")
    gang = started(first, nodes=1)
    other.start(gang)
    assert len(cluster.actors) == 2
    assert other.sweep(set) == [gang.name]
    seen(first, gang, is_running)
    assert cluster.actor(0)["name"].startswith("drumbeat-rack-ffffff-")


def test_gang_without_room_waits_and_leaves_no_job_on_the_head(make: Make, cluster: FakeRay):
    engine, gang = make(), a_gang(nodes=4)
    engine.start(gang)
    sighting = seen(engine, gang, lambda sighting: "INFEASIBLE" in sighting.word)
    assert sighting.waits
    assert [one["status"] for one in cluster.jobs.values()] == ["SUCCEEDED"]


def test_waiting_gang_starts_with_the_current_servers(make: Make, cluster: FakeRay):
    engine, gang = make(), a_gang(nodes=4)
    engine.start(gang)
    seen(engine, gang, lambda sighting: "INFEASIBLE" in sighting.word)
    moved = replace(gang, servers=("https://10.9.9.9:1",))
    engine.observe(moved)
    cluster.nodes["id4"] = {**cluster.nodes["id1"], "node_id": "id4", "node_name": "n4"}
    cluster.place(cluster.groups[0])
    seen(engine, moved, is_running)
    package = cluster.jobs[f"{PREFIX}{gang.name}.start.2"]["request"]["runtime_env"]["working_dir"].removeprefix(
        "gcs://"
    )
    assert len(cluster.packages) == 2
    assert package == list(cluster.packages)[1]


def test_start_that_a_job_makes_already_is_left_to_it(make: Make, cluster: FakeRay):
    cluster.is_busy = True
    engine, gang = make(), a_gang()
    engine.start(gang)
    make().start(gang)
    assert seen(engine, gang, lambda sighting: sighting.word.startswith("PENDING")).waits
    cluster.run(f"{PREFIX}{gang.name}.start.1")
    seen(engine, gang, is_running)
    assert len(cluster.actors) == 2


def test_gpus_and_resources_of_a_node_are_reserved(make: Make, cluster: FakeRay):
    engine = make(cpus_per_node=3, resources={"a100": 0.5})
    gang = replace(a_gang(nodes=1), slots=(Slot(0, "m", 1, ("0", "1")),))
    for node in cluster.nodes.values():
        node["resources_total"]["a100"] = 1.0
    engine.start(gang)
    assert cluster.groups[0]["bundles"] == [{"CPU": 3, "GPU": 2, "a100": 0.5}]


def test_node_that_cant_be_started_fails_the_job_with_the_sentence(make: Make, cluster: FakeRay):
    cluster.refuses = "drumbeat needs Python 3.11 or newer; /usr/bin/python3 is 3.9.2"
    engine, gang = make(), a_gang()
    engine.start(gang)
    sighting = lost(engine, gang)
    assert (sighting.cause, sorted(sighting.gone)) == (Loss.FAILED, [0, 1])
    assert "node 1 can't be started on its machine: drumbeat needs Python 3.11" in sighting.gone[0]


def test_secret_is_in_no_request_that_the_dashboard_shows(make: Make, cluster: FakeRay):
    engine = make()
    gang = started(engine)
    assert gang.node_secret(0) not in str(cluster.jobs)
    assert gang.node_secret(0) not in engine.rendered(gang)


# --- ends -----------------------------------------------------------------------------------------------------------
def test_draining_machine_is_reported_and_then_preempted(make: Make, cluster: FakeRay):
    engine = make()
    gang = started(engine)
    cluster.drain(1)
    sighting = seen(engine, gang, lambda sighting: sighting.leaving)
    assert sighting.leaving == {1: "Ray is draining machine n2"}
    assert not sighting.gone, "its ranks are saving"
    cluster.lose(1, "Terminated due to preemption: the spot market takes it back")
    sighting = lost(engine, gang)
    assert (sighting.cause, sighting.leaving) == (Loss.PREEMPTED, {})
    assert sighting.gone == {
        1: "machine n2 was taken away (Terminated due to preemption: the spot market takes it back)"
    }


def test_actor_whose_worker_died_is_no_lost_node(make: Make, cluster: FakeRay):
    """The agent isn't the worker's child."""
    engine = make()
    gang = started(engine)
    kill(cluster.actor(0), "WORKER_DIED", "Worker exits unexpectedly")
    sighting = seen(engine, gang, lambda sighting: "WORKER_DIED" in sighting.word)
    assert (sighting.gone, sighting.waits) == ({}, False)
    cluster.nodes["id1"]["state"] = "DEAD"
    assert list(lost(engine, gang).gone) == [0]


def test_group_that_somebody_removed_was_canceled(make: Make, cluster: FakeRay):
    engine = make()
    gang = started(engine)
    for node in (0, 1):
        kill(cluster.actor(node), "INTENDED_SYSTEM_EXIT", "... its placement group was removed ...")
    cluster.remove_group(PREFIX + gang.name)
    assert lost(engine, gang).cause is Loss.CANCELED


def test_job_that_somebody_stopped_was_canceled(make: Make, cluster: FakeRay):
    cluster.is_busy = True
    engine, gang = make(), a_gang()
    engine.start(gang)
    cluster.jobs[f"{PREFIX}{gang.name}.start.1"]["status"] = "STOPPED"
    assert lost(engine, gang).cause is Loss.CANCELED


def test_restarted_cluster_reports_that_earlier_gangs_are_unknown(make: Make, cluster: FakeRay):
    engine = make()
    gang = started(engine)
    cluster.restart()
    sighting = seen(engine, gang, lambda sighting: "was restarted" in sighting.word)
    assert sighting.gone == {}, "its agents may go on"
    engine.stop(gang.name)


def test_gang_that_vanishes_after_an_idle_cluster_was_restarted_is_not_taken_for_another_restart(
    make: Make, cluster: FakeRay
):
    engine = make()
    assert engine.machines()
    cluster.restart()
    gang = started(engine)
    cluster.is_busy = True
    cluster.groups, cluster.actors, cluster.jobs = [], [], {}
    sighting = seen(engine, gang, lambda sighting: not is_running(sighting))
    assert "restarted" not in sighting.word


# --- stops ----------------------------------------------------------------------------------------------------------
def test_gang_whose_agents_have_left_is_ended_without_a_job(make: Make, cluster: FakeRay):
    engine = make()
    gang = started(engine)
    cluster.leave(PREFIX + gang.name)
    before = len(cluster.packages)
    engine.stop(gang.name)
    assert len(cluster.packages) == before
    assert cluster.running_jobs == []


def test_gang_that_waits_gives_its_group_back(make: Make, cluster: FakeRay):
    """A group that stays would take its machines later."""
    engine, gang = make(), a_gang(nodes=4)
    engine.start(gang)
    engine.stop(gang.name)
    assert cluster.group(PREFIX + gang.name) is None
    assert cluster.running_jobs == []


def test_jobs_of_gangs_that_are_over_are_forgotten_after_a_while(make: Make, cluster: FakeRay):
    engine = make()
    gang = started(engine)
    engine._gangs.tidy_s = 0.0
    engine._gangs.tidy({gang.name})
    assert list(cluster.jobs) == [f"{PREFIX}{gang.name}.start.1"]
    engine.stop(gang.name)
    engine._gangs.tidy(set())
    assert cluster.jobs == {}


def test_unkillable_process_is_reported_and_the_stop_retried(
    make: Make, cluster: FakeRay, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "END_S", 2.0)
    engine = make()
    gang = started(engine)
    cluster.stuck = "process 17 of contract.1 can't be killed"
    with pytest.raises(UnreachableError, match="process 17"):
        engine.stop(gang.name)
    cluster.stuck = ""
    monkeypatch.setattr(module, "END_S", 60.0)
    engine.stop(gang.name)
    assert cluster.group(PREFIX + gang.name) is None


def test_sweep_while_the_dashboard_is_away_is_made_when_it_answers(make: Make, cluster: FakeRay):
    started(make(), nodes=1)
    engine = make()
    cluster.is_away = True
    with pytest.raises(EngineError):
        engine.sweep(set)
    cluster.is_away = False
    deadline = time.monotonic() + 20
    while cluster.actor(0)["state"] != "DEAD" and time.monotonic() < deadline:
        engine.poller.nudge()
        time.sleep(POLL_S)
    assert cluster.actor(0)["state"] == "DEAD"


@pytest.mark.parametrize("refuses_survey", [False, True])
def test_gang_that_no_job_wants_is_ended_when_it_is_seen(make: Make, cluster: FakeRay, *, refuses_survey: bool):
    """A start that was given up is carried out after its stop."""
    cluster.refuses_survey = refuses_survey
    engine = make(max_instances=9)
    assert engine.machines()
    assert engine.sweep(set) == []
    started(make(), nodes=1)
    deadline = time.monotonic() + 20
    while cluster.actor(0)["state"] != "DEAD" and time.monotonic() < deadline:
        engine._judged_at = -1e9
        engine.poller.nudge()
        time.sleep(POLL_S)
    assert cluster.actor(0)["state"] == "DEAD"
