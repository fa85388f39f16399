"""The state of a Kubernetes node by its conditions, taints, `unschedulable` and deletion. Pure.

The words of the node controller and the kubelet were observed on 1.20.2 and 1.36.2; the taints of autoscalers and
clouds are from their documentation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from drumbeat.model.api.computes import NodeState
from drumbeat.model.unique_names import parse_gang_name

Json = Mapping[str, Any]

YOUNG = timedelta(minutes=10)
"""For how long after it joined the cluster a node that isn't ready counts as being prepared; later it is unusable."""

TAINTS: dict[str, tuple[NodeState, str]] = {
    "ToBeDeletedByClusterAutoscaler": (NodeState.LEAVING, "the cluster's autoscaler is removing it"),
    "karpenter.sh/disrupted": (NodeState.LEAVING, "Karpenter is removing it"),
    "karpenter.sh/disruption": (NodeState.LEAVING, "Karpenter is removing it"),  # Until Karpenter 0.37.
    "aws-node-termination-handler/spot-itn": (NodeState.LEAVING, "its cloud is taking it back (spot)"),
    "aws-node-termination-handler/rebalance-recommendation": (NodeState.LEAVING, "its cloud may take it back (spot)"),
    "aws-node-termination-handler/scheduled-maintenance": (NodeState.LEAVING, "its cloud has scheduled maintenance"),
    "aws-node-termination-handler/asg-lifecycle-termination": (NodeState.LEAVING, "its cloud is scaling it down"),
    "cloud.google.com/impending-node-termination": (NodeState.LEAVING, "its cloud is about to end it"),
    "node.kubernetes.io/out-of-service": (NodeState.UNUSABLE, "it was taken out of service"),
    "node.cloudprovider.kubernetes.io/shutdown": (NodeState.UNUSABLE, "its cloud has shut it down"),
    "node.cloudprovider.kubernetes.io/uninitialized": (NodeState.PREPARING, "its cloud hasn't initialized it yet"),
    "node.cilium.io/agent-not-ready": (NodeState.PREPARING, "its network isn't ready yet"),
}
"""Taints that come and go with a node's state, by key."""
PRESSURES: dict[str, str] = {
    "DiskPressure": "it is running out of disk space",
    "PIDPressure": "it is running out of process ids",
    "NetworkUnavailable": "its network isn't available",
}
"""Conditions with which Kubernetes places no more pods on a node. Under MemoryPressure it places drumbeat's pods."""
CORDON = "node.kubernetes.io/unschedulable"


@dataclass(frozen=True)
class NodeVerdict:
    """The state of a Kubernetes node, apart from its pods: IDLE = pods may start on it. since: Kubernetes' own time."""

    state: NodeState
    word: str
    """The status as `kubectl get nodes` prints it."""
    why: str = ""
    since: datetime | None = None


def judged_node(node: Json, now: datetime | None = None) -> NodeVerdict:
    """The verdict on a node. The most certain rule comes first: a node that is leaving is LEAVING even if it no longer
    answers.
    """
    word = _word(node)
    state, why, since = next(_verdicts(node, now or datetime.now(UTC)), (NodeState.IDLE, _shortage(node), None))
    return NodeVerdict(state, word, why, _time(since))


def is_transient(taint: Json) -> bool:
    """Whether a taint describes the node's current state, rather than which pods it is for."""
    key = str(taint.get("key"))
    return key in TAINTS or key.startswith("node.kubernetes.io/")


_Found = tuple[NodeState, str, object]


def _verdicts(node: Json, now: datetime) -> Iterator[_Found]:
    taints: dict[str, Json] = {str(one.get("key")): one for one in node.get("spec", {}).get("taints") or ()}
    by_taint = [(*TAINTS[key], one.get("timeAdded")) for key, one in taints.items() if key in TAINTS]
    if removed := node["metadata"].get("deletionTimestamp"):
        yield NodeState.LEAVING, "it is being removed from the cluster", removed
    yield from (one for one in by_taint if one[0] is NodeState.LEAVING)
    yield from (one for one in by_taint if one[0] is NodeState.PREPARING)
    yield from _unready(node, now)
    yield from by_taint
    yield from _under_pressure(node)
    if node.get("spec", {}).get("unschedulable"):
        yield NodeState.LEAVING, "it is cordoned: nothing new starts on it", taints.get(CORDON, {}).get("timeAdded")


def _unready(node: Json, now: datetime) -> Iterator[_Found]:
    ready = _conditions(node).get("Ready", {})
    since, message = ready.get("lastTransitionTime"), _in_brackets(ready.get("message", ""))
    if ready.get("status") == "True":
        return
    joined = _time(node["metadata"].get("creationTimestamp"))
    if ready.get("status") == "Unknown" and ready.get("reason") != "NodeStatusNeverUpdated":
        yield NodeState.UNUSABLE, f"it doesn't answer Kubernetes{message}", since
    elif joined is not None and now - joined < YOUNG:
        yield NodeState.PREPARING, f"it has joined the cluster and isn't ready yet{message}", joined.isoformat()
    else:
        yield NodeState.UNUSABLE, f"Kubernetes says that it isn't ready{message}", since


def _under_pressure(node: Json) -> Iterator[_Found]:
    for kind, one in _conditions(node).items():
        if kind in PRESSURES and one.get("status") == "True":
            yield NodeState.UNUSABLE, f"{PRESSURES[kind]}{_in_brackets(one.get('message', ''))}", _since(one)


def _shortage(node: Json) -> str:
    memory = _conditions(node).get("MemoryPressure", {})
    return (
        f"it is running out of memory{_in_brackets(memory.get('message', ''))}"
        if memory.get("status") == "True"
        else ""
    )


def _word(node: Json) -> str:
    ready = _conditions(node).get("Ready", {}).get("status", "Unknown")
    word = {"True": "Ready", "False": "NotReady"}.get(ready, "Unknown")
    return f"{word},SchedulingDisabled" if node.get("spec", {}).get("unschedulable") else word


def _conditions(node: Json) -> dict[str, Json]:
    return {one["type"]: one for one in node.get("status", {}).get("conditions") or ()}


def _since(condition: Json) -> object:
    return condition.get("lastTransitionTime")


def _time(text: object) -> datetime | None:
    return datetime.fromisoformat(str(text)) if text else None


def _in_brackets(message: str) -> str:
    line = " ".join(message.split()).rstrip(".")
    return f" ({line[:300]})" if line else ""


@dataclass(frozen=True)
class Occupant:
    """A node of a job on a machine. gang: its name (`model/unique_names.py`)."""

    gang: str
    node: int
    since: datetime | None = None

    def __str__(self) -> str:
        job, attempt = parse_gang_name(self.gang)
        return f"node {self.node} of job {job}" + (f", attempt {attempt}" if attempt != "1" else "")


def occupied(verdict: NodeVerdict, occupants: Iterable[Occupant]) -> NodeVerdict:
    """The verdict on a node that runs pods of jobs."""
    listed = sorted(occupants, key=lambda one: (one.gang, one.node))
    if not listed:
        return verdict
    runs = " and ".join(map(str, listed))
    why = f"{verdict.why}; {runs} is there" if verdict.why else runs
    if verdict.state is not NodeState.IDLE:
        return NodeVerdict(verdict.state, verdict.word, why, verdict.since)
    since = min((one.since for one in listed if one.since), default=None)
    return NodeVerdict(NodeState.RUNNING, verdict.word, why, since)
