"""The machines of a cluster, from its Kubernetes nodes: pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from drumbeat.engines.kubernetes.node_states import Occupant, is_transient, judged_node, occupied
from drumbeat.jobfile.compute.kubernetes import KubernetesCompute
from drumbeat.model.api.computes import Machine, NodeState
from drumbeat.model.plurals import name_some
from drumbeat.ports.engines import NoMachinesError

Json = Mapping[str, Any]
_UNITS = {"": 1.0, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_BINARY_UNITS = {f"{letter}i": 1024.0 ** (power + 1) for power, letter in enumerate("KMGTP")}


def amount(text: object) -> float:
    """A Kubernetes quantity as a number: `3920m`, `16Gi`, `4`; 0 if it is invalid."""
    parts = re.fullmatch(r"([0-9.]+(?:[eE][0-9]+)?)([a-zA-Z]{0,2})", str(text))
    factor = (_UNITS | _BINARY_UNITS).get(parts[2]) if parts else None
    return float(parts[1]) * factor if parts and factor else 0.0


def machines(
    spec: KubernetesCompute, nodes: Sequence[Json], occupants: Mapping[str, Sequence[Occupant]]
) -> list[Machine]:
    """The nodes on which this compute's pods may run; with `nodes: N`, as many as the cluster may grow to.

    occupants: job nodes by machine. Machines that aren't listed are assumed to be like the listed ones, if there are
    any.
    """
    listed = [one for node in nodes if (one := _machine(spec, node, occupants))]
    missing = (spec.nodes or 0) - len(listed)
    templates = [one for one in listed if not one.is_for_gpus] or listed
    cpus = spec.cpus_per_node or max((one.cpus for one in templates), default=1)
    count = max((len(one.gpus) for one in templates), default=0) if spec.gpus_per_node is None else spec.gpus_per_node
    gpus = tuple(str(number) for number in range(count))
    return [*listed, *(Machine(f"{spec.name}-{n + 1}", cpus, gpus, word="not listed") for n in range(max(0, missing)))]


def no_machines(spec: KubernetesCompute, nodes: Sequence[Json]) -> NoMachinesError:
    """The error that says why no node of the cluster accepts the compute's pods."""
    labels = ", ".join(f"{key}={value}" for key, value in spec.node_selector.items())
    selected = [node for node in nodes if _is_selected(spec, node)]
    taints = sorted({one.get("key", "") for node in selected for one in _lasting_taints(node)})
    if not nodes:
        what = "the cluster has no nodes"
    elif not selected:
        what = f"no node of the cluster has the labels of `node_selector`: {labels}"
    else:
        which = f" with the labels {labels}" if labels else ""
        what = f"every node of the cluster{which} has a taint that the compute doesn't tolerate: {name_some(taints)}"
    fix = "Where the cluster starts nodes for pods, set `nodes` and `cpus_per_node` in the compute's file."
    return NoMachinesError(what, fix=fix)


def gpu_toleration(spec: KubernetesCompute) -> dict[str, str]:
    """The toleration of pods with GPUs: the one that the admission plugin ExtendedResourceToleration adds.

    Clusters use such taints to keep other pods off machines with GPUs, and the plugin isn't enabled on all of them.
    https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#extendedresourcetoleration
    """
    return {"key": spec.gpu_resource, "operator": "Exists", "effect": "NoSchedule"}


def _machine(spec: KubernetesCompute, node: Json, occupants: Mapping[str, Sequence[Occupant]]) -> Machine | None:
    """The machine of a Kubernetes node; None if it accepts no pod of this compute."""
    has: Json = node.get("status", {}).get("allocatable") or {}
    gpus = int(amount(has.get(spec.gpu_resource, 0))) if spec.gpus_per_node is None else spec.gpus_per_node
    own = cast("Iterable[Json]", spec.pod.get("spec", {}).get("tolerations") or ())
    tolerations: list[Json] = [*spec.tolerations, *own]
    is_for_gpus = not _is_eligible(spec, node, tolerations)
    if is_for_gpus and not (gpus and _is_eligible(spec, node, [*tolerations, gpu_toleration(spec)])):
        return None
    name, cpus = node["metadata"]["name"], int(amount(has.get("cpu", 0)))
    alone = judged_node(node)
    verdict = occupied(alone, occupants.get(name, ()))
    kept = f"it only takes jobs with GPUs: it has the taint {spec.gpu_resource}" if is_for_gpus else ""
    return Machine(
        name,
        # A machine that pods share has capacity for several of `cpus_per_node`.
        cpus if spec.share_machines else spec.cpus_per_node or cpus,
        tuple(str(number) for number in range(gpus)),
        int(amount(has.get("memory", 0)) / 2**20),
        word=verdict.word,
        unusable="" if alone.state is NodeState.IDLE else alone.why,
        state=verdict.state,
        why=verdict.why or kept,
        since=verdict.since,
        is_for_gpus=is_for_gpus,
    )


def _is_eligible(spec: KubernetesCompute, node: Json, tolerations: Sequence[Json]) -> bool:
    lasting = _lasting_taints(node)
    tolerated = (one.get("effect") == "PreferNoSchedule" or _tolerates(tolerations, one) for one in lasting)
    return _is_selected(spec, node) and all(tolerated)


def _is_selected(spec: KubernetesCompute, node: Json) -> bool:
    labels: Json = node["metadata"].get("labels") or {}
    return all(labels.get(key) == value for key, value in spec.node_selector.items())


def _lasting_taints(node: Json) -> list[Json]:
    taints: list[Json] = node.get("spec", {}).get("taints") or []
    return [one for one in taints if not is_transient(one)]


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
