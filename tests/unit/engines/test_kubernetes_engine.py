"""The engine over a cluster in memory: its promises, and what users complain of elsewhere."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from drumbeat.core.lifecycle.events import Loss
from drumbeat.engines.contract import EngineContract, a_gang
from drumbeat.engines.kubernetes import engine as module
from drumbeat.engines.kubernetes.engine import KubernetesEngine
from drumbeat.jobfile.compute.kubernetes import KubernetesCompute
from drumbeat.model.api.computes import NodeState
from drumbeat.model.errors import EngineError, UnreachableError
from drumbeat.ports.engines import Engine, Gang, GangStatus, NoMachinesError

from .kubernetes_cluster import FakeCluster, ended, waiting

pytestmark = pytest.mark.feature("C4")

POLL_S = 0.02


def spec(**keys: Any) -> KubernetesCompute:
    return KubernetesCompute.model_validate({"name": "rack", "type": "kubernetes", "image": "r/train:1", **keys})


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


Make = Callable[..., KubernetesEngine]


@pytest.fixture
def make(cluster: FakeCluster) -> Iterator[Make]:
    made: list[KubernetesEngine] = []

    def make(mark: str = "ab12cd", **keys: Any) -> KubernetesEngine:
        engine = KubernetesEngine(spec(**keys), mark, cluster)
        engine.leave_s, engine.node_grace_s, engine.poller.busy_s, engine.nodes_s = 0.0, 0.0, POLL_S, 0.0
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
    return sighting.word == "Running"


class TestContract(EngineContract):
    @pytest.fixture
    def engine(self, make: Make) -> Engine:
        return make()

    @pytest.fixture
    def lose(self, cluster: FakeCluster) -> Callable[[Gang, int], None]:
        return lambda _, node: cluster.silence(cluster.pod(node)["spec"]["nodeName"])


# --- machines -------------------------------------------------------------------------------------------------------
def test_machines_list_the_nodes_with_their_allocatable_resources(make: Make, cluster: FakeCluster):
    cluster.nodes["n2"]["spec"]["unschedulable"] = True
    cluster.nodes["n3"]["spec"]["taints"] = [{"key": "node-role.kubernetes.io/master", "effect": "NoSchedule"}]
    first, second = make().machines()
    assert (first.name, first.cpus, first.gpus, first.memory_mib) == ("n1", 3, ("0", "1"), 16384)
    assert (second.unusable, second.state) == ("it is cordoned: nothing new starts on it", NodeState.LEAVING)
    tolerant = make(tolerations=[{"key": "node-role.kubernetes.io/master", "operator": "Exists"}])
    assert [one.name for one in tolerant.machines()] == ["n1", "n2", "n3"]
    assert make(node_selector={"gpu": "h100"}, nodes=2, cpus_per_node=8).machines()[1].cpus == 8


def test_tainted_gpu_machine_takes_only_jobs_with_gpus(make: Make, cluster: FakeCluster):
    """As GKE taints them, where the admission plugin ExtendedResourceToleration lets pods with GPUs in."""
    cluster.nodes["n2"]["spec"]["taints"] = [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]
    free, kept, _ = make().machines()
    assert (free.is_for_gpus, free.why) == (False, "")
    assert (kept.name, kept.is_for_gpus, len(kept.gpus)) == ("n2", True, 2)
    assert kept.why == "it only takes jobs with GPUs: it has the taint nvidia.com/gpu"
    own = make(tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists"}])
    assert not any(one.is_for_gpus for one in own.machines())


@pytest.mark.parametrize(
    ("taint", "keys"),
    [
        ({"key": "nvidia.com/gpu", "effect": "NoExecute"}, {}),
        ({"key": "amd.com/gpu", "effect": "NoSchedule"}, {}),
        ({"key": "nvidia.com/gpu", "effect": "NoSchedule"}, {"gpus_per_node": 0}),
    ],
    ids=["another_effect", "another_resource", "no_gpus_for_jobs"],
)
def test_machine_that_no_pod_would_tolerate_is_left_out(
    make: Make, cluster: FakeCluster, taint: dict[str, str], keys: dict[str, int]
):
    cluster.nodes["n2"]["spec"]["taints"] = [taint]
    assert [one.name for one in make(**keys).machines()] == ["n1", "n3"]


def test_machine_runs_while_a_node_of_a_job_is_on_it(make: Make, cluster: FakeCluster):
    engine, gang = make(), a_gang(nodes=2)
    engine.start(gang)
    seen(engine, gang, is_running)
    taken = {pod["spec"]["nodeName"] for pod in cluster.pods.values()}
    listed = engine.machines()
    assert {one.name for one in listed if one.state is NodeState.RUNNING} == taken
    assert {one.why for one in listed} == {"node 0 of job contract", "node 1 of job contract", ""}
    assert not any(one.unusable for one in listed)
    engine.stop(gang.name)
    deadline = time.monotonic() + 20
    while any(one.state is NodeState.RUNNING for one in engine.machines()):
        assert time.monotonic() < deadline
        engine.poller.nudge()


def test_user_without_node_permission_must_set_nodes_and_cpus(make: Make, cluster: FakeCluster):
    cluster.forbidden.add("nodes")
    with pytest.raises(UnreachableError, match=r"may not list.*Set `nodes`"):
        make().machines()
    assert [one.cpus for one in make(nodes=3, cpus_per_node=4).machines()] == [4, 4, 4]


def test_compute_that_no_node_accepts_names_the_obstacle(make: Make, cluster: FakeCluster):
    with pytest.raises(NoMachinesError, match="no node of the cluster has the labels of `node_selector`: gpu=h100"):
        make(node_selector={"gpu": "h100"}).machines()
    assert [one.cpus for one in make(node_selector={"gpu": "h100"}, nodes=1, cpus_per_node=8).machines()] == [8]
    for node in cluster.nodes.values():
        node["spec"]["taints"] = [{"key": "team", "value": "x", "effect": "NoSchedule"}]
    with pytest.raises(NoMachinesError, match=r"every node of the cluster has a taint .*: team"):
        make().machines()
    cluster.nodes.clear()
    with pytest.raises(NoMachinesError, match=r"the cluster has no nodes.*set `nodes`"):
        make().machines()


def test_every_request_but_the_list_of_nodes_is_within_the_namespace(make: Make, cluster: FakeCluster):
    """skypilot 5146, 4152: lists at cluster scope broke it for users with rights in a namespace."""
    engine, gang = make(), a_gang()
    engine.start(gang)
    seen(engine, gang, is_running)
    engine.sweep(lambda: {gang.name})
    engine.stop(gang.name)
    outside = {path for _, path in cluster.requests if not path.startswith("/api/v1/namespaces/ml/")}
    assert outside == {"/api/v1/nodes", "/version"}
    changes = {method for method, _ in cluster.requests}
    assert changes == {"GET", "POST", "DELETE"}, "no permission to change objects is needed"
    assert ("GET", "/api/v1/namespaces/ml/secrets") not in cluster.requests


# --- starts ---------------------------------------------------------------------------------------------------------
def test_servers_and_computes_in_one_namespace_keep_apart(make: Make, cluster: FakeCluster):
    first, other = make(), make("ffffff")
    gang = a_gang(nodes=1)
    first.start(gang)
    other.start(gang)
    assert len(cluster.pods) == 2
    assert other.sweep(set) == [gang.name]
    assert len(cluster.pods) == 1
    seen(first, gang, is_running)


def test_used_up_quota_is_waited_for_and_nothing_is_kept_meanwhile(make: Make, cluster: FakeCluster):
    engine, gang = make(), a_gang(nodes=2)
    cluster.quota = 1
    with pytest.raises(UnreachableError, match=r"the namespace's quota is used up.*exceeded quota: small"):
        engine.start(gang)
    assert not cluster.pods, "a half gang would hold a machine for nothing"
    cluster.quota = 2
    engine.start(gang)
    seen(engine, gang, is_running)


@pytest.mark.parametrize("which", ["pods/.*-1$", "secrets/"])
def test_conflict_that_created_nothing_is_waited_for(make: Make, cluster: FakeCluster, which: str):
    engine, gang = make(), a_gang(nodes=3)
    cluster.conflicting = which
    with pytest.raises(UnreachableError, match="the object has been modified"):
        engine.start(gang)
    assert not cluster.pods, "a gang without one of its pods would wait for it in vain"
    cluster.conflicting = ""
    engine.start(gang)
    assert len(cluster.pods) == 3
    seen(engine, gang, is_running)


def test_start_that_was_cut_short_is_completed(make: Make, cluster: FakeCluster):
    engine, gang = make(), a_gang(nodes=2)
    engine.start(gang)
    del cluster.pods[cluster.pod(1)["metadata"]["name"]]
    make().start(gang)
    assert len(cluster.pods) == 2


def test_start_over_ending_pods_is_retried(make: Make, cluster: FakeCluster):
    engine, gang = make(), a_gang(nodes=1)
    engine.start(gang)
    cluster.doom(0)
    with pytest.raises(UnreachableError, match="of an earlier start is still ending"):
        make().start(gang)


def test_missing_image_is_refused(make: Make):
    with pytest.raises(EngineError, match="no image is set"):
        make(image=None).start(a_gang())


def test_secret_is_in_no_pod_and_gone_with_its_gang(make: Make, cluster: FakeCluster):
    engine, gang = make(), a_gang(nodes=2)
    engine.start(gang)
    assert gang.node_secret(0) not in str(cluster.pods)
    assert gang.node_secret(0) in str(cluster.objects["secrets"])
    engine.stop(gang.name)
    assert not cluster.objects["secrets"]


def test_new_addresses_of_servers_reach_a_gang_that_still_waits(make: Make, cluster: FakeCluster):
    cluster.nodes.clear()
    engine, gang = make(nodes=1), a_gang(nodes=1)
    engine.start(gang)
    seen(engine, gang, lambda sighting: "Unschedulable" in sighting.word)
    moved = replace(gang, servers=("https://10.9.9.9:1",))
    seen(engine, moved, lambda _: "10.9.9.9" in str(cluster.objects["secrets"]))


# --- what users complain of ----------------------------------------------------------------------------------------
def test_pod_that_waits_says_the_schedulers_sentence(make: Make, cluster: FakeCluster):
    cluster.nodes.clear()
    engine, gang = make(nodes=1), a_gang(nodes=1)
    engine.start(gang)
    sighting = seen(engine, gang, lambda sighting: "Unschedulable" in sighting.word)
    assert sighting.waits
    assert "0/0 nodes are available" in sighting.word


def test_image_that_cant_be_pulled_fails_the_job_with_the_message(make: Make, cluster: FakeCluster):
    """Elsewhere, pulls are retried forever behind a quiet terminal."""
    engine, gang = make(image_timeout=0.01), a_gang(nodes=2)
    engine.start(gang)
    cluster.pod(1)["status"] = waiting("ImagePullBackOff", 'Back-off pulling image "r/train:1"')
    sighting = lost(engine, gang)
    assert sighting.cause is Loss.FAILED
    assert list(sighting.gone) == [1]
    assert 'can\'t start: ImagePullBackOff (Back-off pulling image "r/train:1")' in sighting.gone[1]


def test_image_that_cant_be_pulled_yet_says_so_meanwhile(make: Make, cluster: FakeCluster):
    engine, gang = make(), a_gang(nodes=1)
    engine.start(gang)
    cluster.pod(0)["status"] = waiting("ErrImagePull", "not found")
    assert not seen(engine, gang, lambda sighting: "ErrImagePull (not found)" in sighting.word).gone


def test_preempted_pod_has_its_grace_time_and_then_counts_as_preempted(make: Make, cluster: FakeCluster):
    """jobset 1117: preemptions were counted as retries. skypilot PR 7726: it hung in "missing pods"."""
    engine, gang = make(), a_gang(nodes=2)
    engine.start(gang)
    seen(engine, gang, is_running)
    cluster.doom(0, "PreemptionByScheduler")
    saving = seen(engine, gang, lambda sighting: "Terminating" in sighting.word)
    assert not saving.gone, "its ranks are saving"
    cluster.pod(0)["status"] = ended(0, "Completed")
    sighting = lost(engine, gang)
    assert (sighting.cause, list(sighting.gone)) == (Loss.PREEMPTED, [0])
    assert "was preempted by a pod with a higher priority" in sighting.gone[0]


def test_preemption_on_an_old_cluster_is_known_by_its_event(make: Make, cluster: FakeCluster):
    engine, gang = make(), a_gang(nodes=1)
    engine.start(gang)
    seen(engine, gang, is_running)
    cluster.say(0, "Preempted", "Preempted by ml/rival on node n1")
    del cluster.pods[cluster.pod(0)["metadata"]["name"]]
    sighting = lost(engine, gang)
    assert sighting.cause is Loss.PREEMPTED
    assert "(Preempted by ml/rival on node n1)" in sighting.gone[0]


def test_pod_that_was_preempted_and_ended_between_two_looks_was_preempted(make: Make, cluster: FakeCluster):
    """Seen on 1.20: the agent ended 0.3 s after the rival's POST."""
    engine, gang = make(), a_gang(nodes=1)
    engine.start(gang)
    seen(engine, gang, is_running)
    cluster.say(0, "Preempted", "Preempted by ml/rival on node n1")
    pod = cluster.pod(0)
    name = pod["metadata"]["name"]
    dying = {**pod["metadata"], "deletionTimestamp": "2026-11-20T10:00:00Z"}
    cluster.pods[name] = {**pod, "metadata": dying, "status": ended(143)}
    assert lost(engine, gang).cause is Loss.PREEMPTED


def test_pod_that_ended_and_was_collected_is_never_created_again(make: Make, cluster: FakeCluster):
    """kubeflow/trainer 2981, 3737: finished jobs ran again after their time to live."""
    engine, gang = make(), a_gang(nodes=1)
    engine.start(gang)
    seen(engine, gang, is_running)
    cluster.pods.clear()
    assert lost(engine, gang).cause is Loss.LOST
    assert not cluster.pods
    assert cluster.requests.count(("POST", "/api/v1/namespaces/ml/pods")) == 1


def test_pod_is_never_replaced_alone(make: Make, cluster: FakeCluster):
    """kubeflow/trainer 2269, 2300: a pod replaced alone can't join ranks that run."""
    engine, gang = make(), a_gang(nodes=3)
    engine.start(gang)
    seen(engine, gang, is_running)
    del cluster.pods[cluster.pod(1)["metadata"]["name"]]
    assert list(lost(engine, gang).gone) == [1]
    assert len(cluster.pods) == 2


def test_drain_on_an_old_cluster_is_known_by_its_cordoned_machine(make: Make, cluster: FakeCluster):
    """Before 1.26, an eviction looks like any deletion."""
    engine, gang = make(), a_gang(nodes=2)
    engine.nodes_s = 60.0
    engine.start(gang)
    seen(engine, gang, is_running)
    machine = cluster.pod(1)["spec"]["nodeName"]
    cluster.nodes[machine]["spec"]["unschedulable"] = True
    del cluster.pods[cluster.pod(1)["metadata"]["name"]]
    sighting = lost(engine, gang)
    assert sighting.cause is Loss.PREEMPTED
    assert "was deleted while its machine was leaving: it is cordoned" in sighting.gone[1]


def test_gang_deleted_as_a_whole_counts_as_canceled(make: Make, cluster: FakeCluster):
    engine, gang = make(), a_gang(nodes=2)
    engine.start(gang)
    seen(engine, gang, is_running)
    for node in (0, 1):
        cluster.doom(node)
    seen(engine, gang, lambda sighting: sighting.word == "Terminating")
    cluster.pods.clear()
    sighting = seen(engine, gang, lambda sighting: len(sighting.gone) == 2)
    assert sighting.cause is Loss.CANCELED


def test_lost_machine_is_named_and_its_pods_are_deleted_by_force_only_when_stopped(make: Make, cluster: FakeCluster):
    engine, gang = make(), a_gang(nodes=2)
    engine.start(gang)
    seen(engine, gang, is_running)
    machine = cluster.pod(1)["spec"]["nodeName"]
    cluster.silence(machine)
    sighting = lost(engine, gang)
    assert sighting.gone == {1: sighting.gone[1]}
    assert f"its machine {machine} doesn't answer Kubernetes" in sighting.gone[1]
    assert len(cluster.pods) == 2, "the attempt isn't over, so a pod that goes on isn't fenced"
    engine.stop(gang.name)
    assert not cluster.pods


def test_api_server_that_is_away_loses_no_gang(make: Make, cluster: FakeCluster):
    engine, gang = make(), a_gang(nodes=2)
    engine.start(gang)
    seen(engine, gang, is_running)
    cluster.is_away = True
    away = seen(engine, gang, lambda sighting: "doesn't answer" in sighting.word)
    assert (away.gone, away.word.split(";")[0]) == ({}, "Running")
    for machine in cluster.nodes:  # As for some seconds after an outage.
        cluster.silence(machine)
    cluster.is_away = False
    assert seen(engine, gang, is_running).gone == {}


# --- gangs ----------------------------------------------------------------------------------------------------------
def test_gang_that_gets_some_machines_only_gives_them_back_and_waits_its_turn(make: Make, cluster: FakeCluster):
    """Two gangs with half of their pods each would wait for one another forever."""
    engine, gang = make(schedule_timeout=0.05), a_gang(nodes=4)
    engine.start(gang)
    sighting = lost(engine, gang)
    assert (sighting.cause, list(sighting.gone)) == (Loss.LOST, [3])
    assert "got no machine in 0.05 s while others of the job had theirs: Unschedulable" in sighting.gone[3]
    engine.stop(gang.name)
    with pytest.raises(UnreachableError, match=r"gave its pods back 1 time .*it asks again \d+ s after that"):
        engine.start(replace(gang, attempt=2))
    assert not cluster.pods
    other = replace(gang, first_version=7)  # Of a job that has the name of this one, which was deleted.
    engine.start(other)
    assert len(cluster.pods) == 4
    engine.stop(other.name)


def test_gang_that_waits_as_a_whole_waits_as_long_as_it_takes(make: Make, cluster: FakeCluster):
    cluster.nodes.clear()
    engine, gang = make(schedule_timeout=0.01, nodes=2), a_gang(nodes=2)
    engine.start(gang)
    looks = cluster.requests.count
    until = looks(("GET", "/api/v1/namespaces/ml/pods")) + 8
    seen(engine, gang, lambda _: looks(("GET", "/api/v1/namespaces/ml/pods")) > until)
    assert engine.observe(gang).waits


def test_gangs_are_held_back_by_gates_until_they_can_be_placed_one_after_another(make: Make, cluster: FakeCluster):
    cluster.version, cluster.is_full = {"major": "1", "minor": "28+"}, True
    engine, gangs = make(), [a_gang("first", 4), a_gang("second", 2)]
    engine.start(gangs[0])
    seen(engine, gangs[0], lambda sighting: "3 Running, 1 Unschedulable" in sighting.word)
    engine.start(gangs[1])
    held = seen(engine, gangs[1], lambda sighting: "are released when those of first-1-" in sighting.word)
    assert held.waits
    assert held.word.startswith("SchedulingGated; its pods")
    assert not any(pod["spec"].get("nodeName") for pod in cluster.pods.values() if "second" in pod["metadata"]["name"])
    engine.stop(gangs[0].name)
    seen(engine, gangs[1], is_running)


def test_gate_of_a_queueing_system_stays_on_a_released_pod(make: Make, cluster: FakeCluster):
    cluster.version = {"major": "1", "minor": "30"}
    kueue = {"name": "kueue.x-k8s.io/admission"}
    engine, gang = make(pod={"spec": {"schedulingGates": [kueue]}}), a_gang(nodes=2)
    engine.start(gang)
    seen(engine, gang, lambda _: cluster.pod(0)["spec"]["schedulingGates"] == [kueue])
    assert engine.observe(gang).waits


def test_user_without_patch_permission_gets_no_gates(make: Make, cluster: FakeCluster):
    """A role of before drumbeat had gates."""
    cluster.version, cluster.may_patch = {"major": "1", "minor": "30"}, False
    engine, gang = make(), a_gang(nodes=2)
    engine.start(gang)
    seen(engine, gang, is_running)
    assert not any("schedulingGates" in pod["spec"] for pod in cluster.pods.values())


def test_job_of_one_node_is_not_held_back(make: Make, cluster: FakeCluster):
    cluster.version, cluster.is_full = {"major": "1", "minor": "30"}, True
    engine, gangs = make(), [a_gang("first", 4), a_gang("single", 1)]
    engine.start(gangs[0])
    seen(engine, gangs[0], lambda sighting: "3 Running, 1 Unschedulable" in sighting.word)
    cluster.nodes["n4"] = {**cluster.nodes["n3"], "metadata": {"name": "n4"}}
    engine.start(gangs[1])
    seen(engine, gangs[1], is_running)


def test_refused_release_is_reported_and_blocks_no_other_gang(
    make: Make, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "backoff_s", lambda *_: 0.2)
    cluster.version, cluster.unpatched = {"major": "1", "minor": "30"}, "first"
    engine, gangs = make(), [a_gang("first", 2), a_gang("second", 2)]
    engine.start(gangs[0])
    sighting = seen(engine, gangs[0], lambda sighting: "can't be released" in sighting.word)
    assert 'admission webhook "labels" denied the request' in sighting.word
    assert sighting.waits
    engine.start(gangs[1])
    seen(engine, gangs[1], is_running)
    cluster.unpatched = ""
    assert "can't be released" not in seen(engine, gangs[0], is_running).word


def test_release_that_is_refused_is_tried_again_after_a_pause(make: Make, cluster: FakeCluster):
    cluster.version, cluster.unpatched = {"major": "1", "minor": "30"}, "contract"
    engine, gang = make(), a_gang(nodes=2)
    engine.start(gang)
    seen(engine, gang, lambda sighting: "can't be released" in sighting.word)
    looks = cluster.requests.count
    until = looks(("GET", "/api/v1/namespaces/ml/pods")) + 8
    seen(engine, gang, lambda _: looks(("GET", "/api/v1/namespaces/ml/pods")) > until)
    assert [method for method, _ in cluster.requests].count("PATCH") == 1


# --- stops ----------------------------------------------------------------------------------------------------------
def test_pod_that_outlives_the_stop_is_reported_and_retried(
    make: Make, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "END_S", 0.1)
    engine, gang = make(), a_gang(nodes=1)
    engine.start(gang)
    cluster.is_slow_to_end = True
    with pytest.raises(UnreachableError, match=r"pod .*-0 is still ending"):
        engine.stop(gang.name)
    cluster.pods.clear()
    engine.stop(gang.name)


def test_sweep_while_the_api_server_is_away_is_made_when_it_answers(make: Make, cluster: FakeCluster):
    make().start(a_gang(nodes=1))
    engine = make()
    cluster.is_away = True
    with pytest.raises(EngineError):
        engine.sweep(set)
    cluster.is_away = False
    deadline = time.monotonic() + 20
    while cluster.pods and time.monotonic() < deadline:
        time.sleep(POLL_S)
    assert not cluster.pods


def test_secret_of_a_gang_that_no_job_wants_goes_after_its_pods(make: Make, cluster: FakeCluster):
    engine, gang = make(), a_gang(nodes=2)
    engine.sweep(set)
    cluster.is_slow_to_end = True
    engine.start(gang)  # Given up by its job, and carried out nevertheless.
    engine._must_sweep = True
    deadline = time.monotonic() + 20
    while not all("deletionTimestamp" in pod["metadata"] for pod in cluster.pods.values()):
        assert time.monotonic() < deadline
        time.sleep(POLL_S)
    assert cluster.objects["secrets"], "its agents may still call"
    cluster.pods.clear()
    while cluster.objects["secrets"]:
        assert time.monotonic() < deadline
        time.sleep(POLL_S)


def test_server_address_is_asked_for_where_the_way_to_the_api_tells_none(make: Make, cluster: FakeCluster):
    cluster.server = ("127.0.0.1", 6443)
    with pytest.raises(UnreachableError, match="Set `server_address`"):
        make().server_addresses()
    assert make(server_address="10.1.1.1").server_addresses() == ["10.1.1.1"]
