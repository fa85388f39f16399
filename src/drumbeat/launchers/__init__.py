"""Turns a plan and a roster into the processes of one node: pure, one file per launcher.

An agent starts the result of `render(plan, roster, node)`, and `drumbeat plan` prints it; nothing here starts anything.
"""

from __future__ import annotations

from dataclasses import replace

from drumbeat.launchers import horovod, host_file, mpi, pytorch
from drumbeat.launchers.launcher import JobShape
from drumbeat.launchers.launcher_table import LAUNCHERS, launcher_for
from drumbeat.model.plan import Plan, Rank
from drumbeat.model.process import ProcessSpec
from drumbeat.model.roster import Roster

_EVEN = (pytorch.LAUNCHER.name, mpi.LAUNCHER.name)
"""Launchers that assign the same number of ranks to each node."""


def render(plan: Plan, roster: Roster, node: int) -> list[ProcessSpec]:
    """Returns the processes that `node` starts in the round of `roster`, in order of their rank."""
    processes = launcher_for(plan).render(plan, roster, node)
    if not horovod.is_served(plan):
        return processes
    return [
        horovod.with_rendezvous(process, plan, roster, rank)
        for process, rank in zip(processes, plan.on(node), strict=True)
    ]


def starter(plan: Plan, roster: Roster, node: int) -> ProcessSpec | None:
    """Returns the process that `node` runs beside its ranks to start them, None = none."""
    return launcher_for(plan).starter(plan, roster, node)


def more_ports(plan: Plan, node: int) -> int:
    """Returns how many ports the node reserves for a round, beyond the one of every node."""
    return launcher_for(plan).more_ports(plan, node) + horovod.more_ports(plan, node)


def needs_all_nodes(plan: Plan) -> bool:
    """Returns whether a node needs the whole roster of a round."""
    return launcher_for(plan).needs_all_nodes(plan)


def ranks(launcher: str, nodes: int, processes_per_node: int) -> tuple[Rank, ...]:
    """Returns the rank table of a job with the same number of ranks on each node."""
    return LAUNCHERS[launcher].ranks(JobShape(nodes, processes_per_node))


def without_ranks(plan: Plan) -> Plan:
    """Returns the plan of a large job without its ranks, where each node can assign them itself."""
    is_large = plan.launcher in _EVEN and plan.nodes > host_file.MAX_LISTED_NODES
    if not is_large or plan.ranks != ranks(plan.launcher, plan.nodes, plan.processes_per_node):
        return plan
    return replace(plan, ranks=())


def with_ranks(plan: Plan) -> Plan:
    """Returns a plan with the ranks that `without_ranks` left out."""
    if plan.ranks or plan.launcher not in _EVEN:
        return plan
    return replace(plan, ranks=ranks(plan.launcher, plan.nodes, plan.processes_per_node))
