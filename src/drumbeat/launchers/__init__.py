"""From a plan and a roster to the processes of one node: pure, one file per launcher.

`render(plan, roster, node)` is what an agent runs and what `drumbeat plan` prints; nothing here starts anything.
"""

from __future__ import annotations

from drumbeat.launchers import horovod
from drumbeat.launchers.launcher import JobShape
from drumbeat.launchers.launcher_table import LAUNCHERS, launcher_of
from drumbeat.model.plan import Plan, Rank
from drumbeat.model.process import ProcessSpec
from drumbeat.model.roster import Roster


def render(plan: Plan, roster: Roster, node: int) -> list[ProcessSpec]:
    """Returns the processes that `node` starts in the round of `roster`, in order of their rank."""
    processes = launcher_of(plan).render(plan, roster, node)
    if not horovod.is_served(plan):
        return processes
    return [
        horovod.with_rendezvous(process, plan, roster, rank)
        for process, rank in zip(processes, plan.on(node), strict=True)
    ]


def starter(plan: Plan, roster: Roster, node: int) -> ProcessSpec | None:
    """Returns what `node` runs beside its ranks so that they begin, None = nothing."""
    return launcher_of(plan).starter(plan, roster, node)


def more_ports(plan: Plan, node: int) -> int:
    """Returns how many ports the node holds for a round beside the one that every node holds."""
    return launcher_of(plan).more_ports(plan, node) + horovod.more_ports(plan, node)


def ranks(launcher: str, nodes: int, processes_per_node: int) -> tuple[Rank, ...]:
    """Returns the rank table of a job whose nodes have as many ranks each."""
    return LAUNCHERS[launcher].ranks(JobShape(nodes, processes_per_node))
