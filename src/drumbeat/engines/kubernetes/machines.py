"""The machines of a cluster, from its Kubernetes nodes: pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from drumbeat.dialect.compute.kubernetes import KubernetesCompute
from drumbeat.engines.kubernetes.node_states import Occupant, is_passing, judged_node, occupied
from drumbeat.ports import Machine
from drumbeat.protocol.api.computes import NodeState

Json = Mapping[str, Any]
_UNITS = {"": 1.0, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_BINARY_UNITS = {f"{letter}i": 1024.0 ** (power + 1) for power, letter in enumerate("KMGTP")}


def amount(text: object) -> float:
    """A Kubernetes quantity as a number: `3920m`, `16Gi`, `4`; 0 for what isn't one."""
    parts = re.fullmatch(r"([0-9.]+(?:[eE][0-9]+)?)([a-zA-Z]{0,2})", str(text))
    factor = (_UNITS | _BINARY_UNITS).get(parts[2]) if parts else None
    return float(parts[1]) * factor if parts and factor else 0.0


def machines(
    spec: KubernetesCompute, nodes: Sequence[Json], occupants: Mapping[str, Sequence[Occupant]]
) -> list[Machine]:
    """The nodes on which this compute's pods may run; with `nodes: N`, as many as the cluster may grow to.

    occupants: the nodes of jobs by the machines that they are on.
    """
    listed = [_machine(spec, node, occupants) for node in nodes if _is_eligible(spec, node)]
    missing = (spec.nodes or 0) - len(listed)
    cpus = spec.cpus_per_node or max((one.cpus for one in listed), default=1)
    count = max((len(one.gpus) for one in listed), default=0) if spec.gpus_per_node is None else spec.gpus_per_node
    gpus = tuple(str(number) for number in range(count))
    return [*listed, *(Machine(f"{spec.name}-{n + 1}", cpus, gpus, word="not listed") for n in range(max(0, missing)))]


def _machine(spec: KubernetesCompute, node: Json, occupants: Mapping[str, Sequence[Occupant]]) -> Machine:
    has: Json = node.get("status", {}).get("allocatable") or {}
    gpus = int(amount(has.get(spec.gpu_resource, 0))) if spec.gpus_per_node is None else spec.gpus_per_node
    name, own = node["metadata"]["name"], int(amount(has.get("cpu", 0)))
    alone = judged_node(node)
    verdict = occupied(alone, occupants.get(name, ()))
    return Machine(
        name,
        # A machine that pods share has room for several of `cpus_per_node`.
        own if spec.share_machines else spec.cpus_per_node or own,
        tuple(str(number) for number in range(gpus)),
        int(amount(has.get("memory", 0)) / 2**20),
        word=verdict.word,
        unusable="" if alone.state is NodeState.IDLE else alone.why,
        state=verdict.state,
        why=verdict.why,
        since=verdict.since,
    )


def _is_eligible(spec: KubernetesCompute, node: Json) -> bool:
    labels: Json = node["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in spec.node_selector.items()):
        return False
    taints: list[Json] = node.get("spec", {}).get("taints") or []
    lasting = [one for one in taints if not is_passing(one)]
    own = cast("Iterable[Json]", spec.pod.get("spec", {}).get("tolerations") or ())
    tolerations = [*spec.tolerations, *own]
    return all(one.get("effect") == "PreferNoSchedule" or _tolerates(tolerations, one) for one in lasting)


def _tolerates(tolerations: Iterable[Json], taint: Json) -> bool:
    for one in tolerations:
        if one.get("effect") not in (None, "", taint.get("effect")):
            continue
        if one.get("operator") == "Exists":
            if one.get("key") in (None, "", taint.get("key")):
                return True
        elif one.get("key") == taint.get("key") and str(one.get("value", "")) == str(taint.get("value", "")):
            return True
    return False
