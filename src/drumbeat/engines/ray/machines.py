"""The machines of a Ray cluster: pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from drumbeat.jobfile.compute.ray import RayCompute
from drumbeat.model.api.computes import Machine, NodeState
from drumbeat.ports.engines import NoMachinesError

Json = Mapping[str, Any]


def machines(
    spec: RayCompute, nodes: Iterable[Json], most: int | None, states: Mapping[str, NodeState] | None = None
) -> list[Machine]:
    """The machines on which this compute's nodes may run. most: how many the autoscaler may start, None = no
    autoscaler. states: of machines in use or being drained, by id.
    """
    alive = [one for one in nodes if one["state"] == "ALIVE" and _is_eligible(spec, one)]
    present = sorted(
        (_machine(spec, one, (states or {}).get(one["node_id"], NodeState.IDLE)) for one in alive),
        key=lambda one: one.name,
    )
    cpus = spec.cpus_per_node or max((one.cpus for one in present), default=1)
    count = max((len(one.gpus) for one in present), default=0) if spec.gpus_per_node is None else spec.gpus_per_node
    off = range(1, max(0, (most or 0) - len(present)) + 1)
    why = "Ray's autoscaler starts it when a job needs it"
    return [
        *present,
        *(Machine(f"{spec.name}-off-{n}", cpus, _gpus(count), word="off", state=NodeState.OFF, why=why) for n in off),
    ]


def no_machines(spec: RayCompute, nodes: Iterable[Json]) -> NoMachinesError:
    """The error that says what the cluster's machines lack."""
    alive: list[Json] = [one.get("resources_total") or {} for one in nodes if one["state"] == "ALIVE"]
    has_cpus = any(one.get("CPU") for one in alive)
    wanted = ", ".join(f"{name}: {value:g}" for name, value in spec.resources.items())
    lacks = f"the `resources` of the compute ({wanted})" if has_cpus and wanted else "CPUs"
    fix = "Where Ray's autoscaler starts machines, set `max_instances` in the compute's file."
    return NoMachinesError(f"no machine of the Ray cluster has {lacks}", fix=fix)


def heads(nodes: Iterable[Json]) -> list[Json]:
    """The head nodes, which no autoscaler starts."""
    return [one for one in nodes if one.get("is_head_node")]


def _machine(spec: RayCompute, node: Json, state: NodeState) -> Machine:
    has: Json = node.get("resources_total") or {}
    count = int(has.get("GPU", 0)) if spec.gpus_per_node is None else spec.gpus_per_node
    # A machine that nodes share has capacity for several of `cpus_per_node`.
    own = int(has.get("CPU", 0))
    cpus = own if spec.share_machines else spec.cpus_per_node or own
    return Machine(
        node["node_name"], cpus, _gpus(count), int(has.get("memory", 0) / 2**20), word=node["state"], state=state
    )


def _gpus(count: int) -> tuple[str, ...]:
    return tuple(str(number) for number in range(count))


def _is_eligible(spec: RayCompute, node: Json) -> bool:
    """Whether a machine can run nodes; a head without CPUs can't."""
    has: Json = node.get("resources_total") or {}
    return int(has.get("CPU", 0)) > 0 and all(has.get(name, 0) >= value for name, value in spec.resources.items())
