"""Jobs on a real Kubernetes with virtual nodes: machines that are taken away, and what is seen of machines."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drumbeat.model.api.computes import Machine
from drumbeat.model.api.jobs import JobWithEvents
from tools.kubelab import binaries
from tools.kubelab.lab import NAMESPACE, USER, KubeLab, kube_lab

from .house import House, a_house, until
from .preemptions import complete_preempted_job, submit_saving_job
from .test_handover_engines import check, swept

pytestmark = [pytest.mark.feature("C4"), pytest.mark.thorough, pytest.mark.timeout(900)]

PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
MERGE = "application/merge-patch+json"
MANY_S = 240


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeLab]:
    programs = binaries.built()
    if isinstance(programs, str):
        pytest.skip(programs)
    pytest.importorskip("lightkube", reason="needs lightkube: pip install 'drumbeat[kubernetes]'")
    with kube_lab(tmp_path_factory.mktemp("kube"), "kj", 3, programs) as lab:
        for name, value in (("low", 1), ("high", 1000)):
            lab.call("POST", CLASSES, {"metadata": {"name": name}, "value": value})
        yield lab


@pytest.fixture
def house(tmp_path: Path, lab: KubeLab) -> Iterator[House]:
    with a_house(tmp_path) as house:
        kept = tmp_path / "kept"
        kept.mkdir()
        house.client.create_compute({
            "name": "rack", "type": "kubernetes", "kubeconfig": str(lab.kubeconfig(USER)), "image": "none",
            "python": sys.executable, "programs": str(Path(sys.executable).parent), "server_address": "localhost",
            "priority_class": "low", "cpus_per_node": 4, "folder": "/kept",
            "volumes": [{"name": "kept", "mount_path": "/kept", "source": {"hostPath": {"path": str(kept)}}}],
        })  # fmt: skip
        yield house


def submitted(house: House, go: Path) -> JobWithEvents:
    """A job of two nodes that runs."""
    extensions = "{environment: current, grace_s: 10, max_retries: 0, system_metrics: false}"
    job = submit_saving_job(house, go, "$DRUMBEAT_CHECKPOINT_DIR/step", 2, extensions)
    until(lambda: "from step 0" in house.logs(job).get(0, ""), MANY_S, "the ranks run")
    return house.client.get(job)


def machines(house: House) -> dict[str, Machine]:
    return {one.name: one for one in house.client.compute("rack").machines}


def pods(lab: KubeLab, attempt: str) -> dict[int, dict[str, Any]]:
    """The pods of an attempt by node. attempt: `<job>.<attempt>`; pods of jobs that are over may still be there."""
    listed = (one for one in lab.pods() if one["metadata"].get("annotations", {}).get("drumbeat/job") == attempt)
    return {int(one["metadata"]["labels"]["drumbeat/node"]): one for one in listed}


def rival(name: str) -> dict[str, object]:
    container = {"name": "c", "image": "none", "command": ["sleep", "600"], "resources": {"requests": {"cpu": "4"}}}
    return {"metadata": {"name": name}, "spec": {"priorityClassName": "high", "containers": [container]}}


@pytest.mark.feature("S6")
def test_trials_follow_each_other_in_the_pods_of_the_first(house: House, lab: KubeLab):
    names: set[str] = set()
    done = threading.Event()

    def look() -> None:
        while not done.wait(0.1):
            names.update(str(pod["metadata"]["name"]) for pod in lab.pods())

    looking = threading.Thread(target=look)
    looking.start()
    try:
        printed = swept(house, "many", "rack", 6)
    finally:
        done.set()
        looking.join()
    check(house, "many", 6, 2, printed)
    assert len(names) == 2, names


@pytest.mark.feature("C6", "C1", "B3")
def test_job_that_makes_room_for_a_higher_priority_goes_on_from_its_checkpoint(
    house: House, lab: KubeLab, tmp_path: Path
):
    go = tmp_path / "go"
    job = submitted(house, go)
    told = [line.sentence for line in job.story if line.sentence.startswith("pre-flight of 2 nodes:")]
    assert len(told) == 1, [line.sentence for line in job.story]
    placed = pods(lab, f"{job.name}.1")
    used = [machines(house)[placed[node]["spec"]["nodeName"]] for node in (0, 1)]
    assert [(one.state, one.why) for one in used] == [("running", f"node {n} of job {job.name}") for n in (0, 1)]
    for name in ("rival-1", "rival-2"):  # The first fits beside the job.
        assert lab.call("POST", PODS, rival(name))[0] == 201
    until(lambda: house.client.get(job.name).attempt == 2, MANY_S, "a second attempt begins")
    until(lambda: "Unschedulable" in house.client.get(job.name).sentence, MANY_S, "it waits")
    for name in ("rival-1", "rival-2"):
        lab.call("DELETE", f"{PODS}/{name}")
    ended = complete_preempted_job(house, job.name, go, MANY_S)
    assert "was preempted by a pod with a higher priority" in ended.failures[0].verdict.sentence


@pytest.mark.feature("C6", "C1")
def test_job_on_a_machine_that_is_drained_goes_on_from_its_checkpoint_elsewhere(
    house: House, lab: KubeLab, tmp_path: Path
):
    """As `kubectl drain` does: the machine is cordoned, then its pods are evicted."""
    go = tmp_path / "go"
    job = submitted(house, go)
    victim = pods(lab, f"{job.name}.1")[1]
    machine, pod = victim["spec"]["nodeName"], victim["metadata"]["name"]
    lab.call("PATCH", f"/api/v1/nodes/{machine}", {"spec": {"unschedulable": True}}, kind=MERGE)
    eviction = {"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": pod, "namespace": NAMESPACE}}
    assert lab.call("POST", f"{PODS}/{pod}/eviction", eviction)[0] == 201
    until(lambda: machines(house)[machine].state == "leaving", MANY_S, "the machine leaves")
    assert machines(house)[machine].why.startswith("it is cordoned: nothing new starts on it")
    until(lambda: house.logs(job.name)[0].count("from step") == 2, MANY_S, "the ranks run again")
    assert machine not in [one["spec"]["nodeName"] for one in pods(lab, f"{job.name}.2").values()]
    ended = complete_preempted_job(house, job.name, go, MANY_S)
    assert "was deleted while its machine was leaving: it is cordoned" in ended.failures[0].verdict.sentence
    lab.call("PATCH", f"/api/v1/nodes/{machine}", {"spec": {"unschedulable": False}}, kind=MERGE)


@pytest.mark.feature("C1")
def test_machine_that_falls_silent_is_unusable_since_kubernetes_says_so(house: House, lab: KubeLab):
    machine = lab.nodes[2]
    until(lambda: machines(house), what="machines are listed")
    lab.silence(machine)
    until(lambda: machines(house)[machine].state == "unusable", MANY_S, "the machine is unusable")
    seen = machines(house)[machine]
    assert seen.why == "it doesn't answer Kubernetes (Kubelet stopped posting node status)"
    _, node = lab.call("GET", f"/api/v1/nodes/{machine}")
    ready = next(one for one in node["status"]["conditions"] if one["type"] == "Ready")
    assert seen.since is not None
    assert seen.since.strftime("%Y-%m-%dT%H:%M:%SZ") == ready["lastTransitionTime"]
    lab.mend()
