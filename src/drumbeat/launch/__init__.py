"""From a plan and a roster to the processes of one node: pure, one file per launcher.

`render(plan, roster, node)` is what an agent runs and what `drumbeat plan` prints; nothing here starts anything.
"""

from __future__ import annotations

from collections.abc import Callable

from drumbeat.launch import horovod, mpi, pytorch, ray, tensorflow
from drumbeat.protocol.plan import Plan, Rank
from drumbeat.protocol.process import ProcessSpec
from drumbeat.protocol.roster import Roster

_RENDER: dict[str, Callable[[Plan, Roster, int], list[ProcessSpec]]] = {
    "pytorch": pytorch.render,
    "mpi": mpi.render,
    "tensorflow": tensorflow.render,
    "ray": ray.render,
}
_RANKS: dict[str, Callable[[int, int], tuple[Rank, ...]]] = {"pytorch": pytorch.ranks, "mpi": pytorch.ranks}
_STARTER: dict[str, Callable[[Plan, Roster, int], ProcessSpec | None]] = {
    "pytorch": pytorch.starter,
    "mpi": mpi.starter,
}
_MORE_PORTS: dict[str, Callable[[Plan, int], int]] = {
    "pytorch": pytorch.more_ports,
    "tensorflow": tensorflow.more_ports,
    "ray": ray.more_ports,
}

LAUNCHERS = tuple(_RENDER)
"""The launchers that there are."""


def render(plan: Plan, roster: Roster, node: int) -> list[ProcessSpec]:
    """The processes that `node` starts in the round of `roster`, in order of their rank."""
    made = _RENDER[plan.launcher](plan, roster, node)
    if not horovod.is_served(plan):
        return made
    return [horovod.with_rendezvous(one, plan, roster, rank) for one, rank in zip(made, plan.on(node), strict=True)]


def starter(plan: Plan, roster: Roster, node: int) -> ProcessSpec | None:
    """What `node` runs beside its ranks so that they begin, None = nothing: its argv is the launcher's own line."""
    find = _STARTER.get(plan.launcher)
    return find(plan, roster, node) if find else None


def more_ports(plan: Plan, node: int) -> int:
    """How many ports the node holds for a round beside the one that every node holds."""
    count = _MORE_PORTS.get(plan.launcher)
    return (count(plan, node) if count else 0) + horovod.more_ports(plan, node)


def ranks(launcher: str, nodes: int, processes_per_node: int) -> tuple[Rank, ...]:
    """The rank table of a job whose nodes have as many ranks each."""
    return _RANKS[launcher](nodes, processes_per_node)
