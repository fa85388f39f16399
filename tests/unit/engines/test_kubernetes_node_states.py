"""The states of a cluster's machines, by what Kubernetes shows of its nodes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from drumbeat.engines.kubernetes.node_states import Occupant, judged_node, occupied
from drumbeat.engines.kubernetes.objects import occupants
from drumbeat.model.api.computes import NodeState

from .kubernetes_cluster import running

pytestmark = [pytest.mark.feature("C1")]

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
OLD, YOUNG, LATELY = "2026-11-01T00:00:00Z", "2026-11-20T11:58:00Z", "2026-11-20T11:59:00Z"
SINCE = datetime(2026, 11, 20, 11, 59, tzinfo=UTC)

READY = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": OLD}
SILENT = {
    "type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "lastTransitionTime": LATELY,
    "message": "Kubelet stopped posting node status.",
}  # fmt: skip
NO_NETWORK = {
    "type": "Ready", "status": "False", "reason": "KubeletNotReady", "lastTransitionTime": LATELY,
    "message": "container runtime network not ready: NetworkReady=false",
}  # fmt: skip
CORDONED: dict[str, Any] = {
    "unschedulable": True, "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]
}  # fmt: skip
AUTOSCALER = {"taints": [{"key": "ToBeDeletedByClusterAutoscaler", "value": "1732100000", "effect": "NoSchedule"}]}


def pressure(kind: str, message: str) -> dict[str, str]:
    return {"type": kind, "status": "True", "message": message, "lastTransitionTime": LATELY}


def node(*conditions: dict[str, str], joined: str = OLD, spec: dict[str, Any] | None = None, **meta: str) -> Any:
    return {
        "metadata": {"name": "n1", "creationTimestamp": joined, **meta},
        "spec": spec or {},
        "status": {"conditions": [{"type": "MemoryPressure", "status": "False"}, *conditions]},
    }


def tainted(key: str, **more: str) -> dict[str, Any]:
    return {"taints": [{"key": key, "effect": "NoSchedule", **more}]}


@pytest.mark.parametrize(
    ("one", "state", "word", "why", "since"),
    [
        (node(READY), "idle", "Ready", "", None),
        (
            node(SILENT), "unusable", "Unknown",
            "it doesn't answer Kubernetes (Kubelet stopped posting node status)", SINCE,
        ),
        (
            node(NO_NETWORK), "unusable", "NotReady",
            "Kubernetes says that it isn't ready (container runtime network not ready: NetworkReady=false)", SINCE,
        ),
        (
            node(NO_NETWORK, joined=YOUNG), "preparing", "NotReady",
            "it has joined the cluster and isn't ready yet (container runtime network not ready: NetworkReady=false)",
            datetime(2026, 11, 20, 11, 58, tzinfo=UTC),
        ),
        (
            node(joined=YOUNG), "preparing", "Unknown", "it has joined the cluster and isn't ready yet",
            datetime(2026, 11, 20, 11, 58, tzinfo=UTC),
        ),
        (node(), "unusable", "Unknown", "Kubernetes says that it isn't ready", None),
        (
            node({**SILENT, "reason": "NodeStatusNeverUpdated", "message": "Kubelet never posted node status."}),
            "unusable", "Unknown", "Kubernetes says that it isn't ready (Kubelet never posted node status)", SINCE,
        ),
        (
            node(READY, spec=tainted("node.cloudprovider.kubernetes.io/uninitialized")), "preparing", "Ready",
            "its cloud hasn't initialized it yet", None,
        ),
        (
            node(READY, pressure("DiskPressure", "kubelet has disk pressure")), "unusable", "Ready",
            "it is running out of disk space (kubelet has disk pressure)", SINCE,
        ),
        (
            node(READY, pressure("PIDPressure", "kubelet has insufficient PID available")), "unusable", "Ready",
            "it is running out of process ids (kubelet has insufficient PID available)", SINCE,
        ),
        (
            node(READY, pressure("NetworkUnavailable", "RouteController failed to create a route")), "unusable",
            "Ready", "its network isn't available (RouteController failed to create a route)", SINCE,
        ),
        (
            node(READY, spec=CORDONED), "leaving", "Ready,SchedulingDisabled",
            "it is cordoned: nothing new starts on it", None,
        ),
        (
            node(SILENT, spec=CORDONED), "unusable", "Unknown,SchedulingDisabled",
            "it doesn't answer Kubernetes (Kubelet stopped posting node status)", SINCE,
        ),
        (node(READY, spec=AUTOSCALER), "leaving", "Ready", "the cluster's autoscaler is removing it", None),
        (node(SILENT, spec=AUTOSCALER), "leaving", "Unknown", "the cluster's autoscaler is removing it", None),
        (
            node(READY, spec=tainted("karpenter.sh/disrupted", timeAdded=LATELY)), "leaving", "Ready",
            "Karpenter is removing it", SINCE,
        ),
        (
            node(READY, spec=tainted("aws-node-termination-handler/spot-itn", value="id")), "leaving", "Ready",
            "its cloud is taking it back (spot)", None,
        ),
        (node(READY, deletionTimestamp=LATELY), "leaving", "Ready", "it is being removed from the cluster", SINCE),
        (
            node({**NO_NETWORK, "message": ""}, spec=tainted("node.cloudprovider.kubernetes.io/shutdown")), "unusable",
            "NotReady", "Kubernetes says that it isn't ready", SINCE,
        ),
        (node(READY, spec=tainted("DeletionCandidateOfClusterAutoscaler")), "idle", "Ready", "", None),
    ],
)  # fmt: skip
def test_node_state_has_a_reason_and_a_time(one: Any, state: str, word: str, why: str, since: datetime | None):
    verdict = judged_node(one, NOW)
    assert (verdict.state, verdict.word, verdict.why, verdict.since) == (state, word, why, since)


def test_node_short_of_memory_still_takes_pods_and_says_so():
    """Kubernetes keeps only pods without requests away from it."""
    verdict = judged_node(node(READY, pressure("MemoryPressure", "kubelet has insufficient memory available")), NOW)
    assert verdict.state is NodeState.IDLE
    assert verdict.why == "it is running out of memory (kubelet has insufficient memory available)"


def pod(gang: str, machine: str, phase: str = "Running") -> dict[str, Any]:
    status = {**running(), "phase": phase, "startTime": LATELY}
    return {"metadata": {"annotations": {"drumbeat/job": gang}}, "spec": {"nodeName": machine}, "status": status}


def test_node_with_pods_of_jobs_runs_and_names_them():
    pods = {"a": {0: pod("cifar.1", "n2"), 1: pod("cifar.1", "n1")}, "b": {0: pod("mnist.2", "n1")}}
    pods["c"] = {0: pod("done.1", "n1", "Succeeded"), 1: {**pod("queued.1", ""), "status": {"phase": "Pending"}}}
    by_machine = occupants(pods)
    assert sorted(by_machine) == ["n1", "n2"]
    verdict = occupied(judged_node(node(READY), NOW), by_machine["n1"])
    assert (verdict.state, verdict.since) == (NodeState.RUNNING, SINCE)
    assert verdict.why == "node 1 of job cifar and node 0 of job mnist, attempt 2"


def test_node_that_leaves_or_is_silent_keeps_its_state_with_pods_on_it():
    there = [Occupant("cifar.1", 1)]
    leaving = occupied(judged_node(node(READY, spec=CORDONED), NOW), there)
    assert (leaving.state, leaving.why) == (
        NodeState.LEAVING, "it is cordoned: nothing new starts on it; node 1 of job cifar is there",
    )  # fmt: skip
    assert occupied(judged_node(node(SILENT), NOW), there).state is NodeState.UNUSABLE
