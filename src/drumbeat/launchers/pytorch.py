"""PyTorch: the user's command once per rank, with the variables that `init_process_group("env://")` reads.

Names as torchrun sets them (PyTorch's elastic run documentation), so a script sees no difference. One process per node
is also the way to run the user's own launcher: it reads NODE_RANK, MASTER_ADDR and MASTER_PORT, or a host file, and may
start processes on the other nodes (`launchers.host_file`).
"""

from __future__ import annotations

from dataclasses import replace

from drumbeat.launchers import host_file
from drumbeat.launchers.launcher import Launcher
from drumbeat.launchers.rank_process import process
from drumbeat.model.plan import Plan, Rank, RankTable
from drumbeat.model.process import COMMAND_SERVER, ProcessSpec
from drumbeat.model.roster import Roster

SET = (
    "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT",
    host_file.VARIABLE,
)  # fmt: skip
"""The variables that belong to this launcher: a job can't set them itself."""


def ranks(nodes: int, processes_per_node: int) -> tuple[Rank, ...]:
    """Assigns ranks node by node: node 0 has 0 … p-1, node 1 has p … 2p-1."""
    return tuple(
        Rank(rank=node * processes_per_node + local, node=node, local_rank=local)
        for node in range(nodes)
        for local in range(processes_per_node)
    )


def render(plan: Plan, roster: Roster, node: int) -> list[ProcessSpec]:
    """Returns one process per rank of the node."""
    return [_process(plan, roster, rank) for rank in plan.on(node)]


def starter(plan: Plan, roster: Roster, node: int) -> ProcessSpec | None:
    """Returns the node's command server, if it has one: its commands get the variables and
    folder of the node's rank.
    """
    if not host_file.is_visited(plan):
        return None
    own = _process(plan, roster, plan.on(node)[0])
    argv = (
        host_file.folder(roster.member(node).root),
        roster.member(node).address,
        str(host_file.port(roster, node)),
    )
    return replace(own, rank=-1, local_rank=-1, role=COMMAND_SERVER, argv=argv)


def more_ports(plan: Plan, node: int) -> int:
    """Returns 1 on node 0 for its command server, as its other port is the ranks'."""
    return int(host_file.is_visited(plan) and node == 0)


def _process(plan: Plan, roster: Roster, rank: Rank) -> ProcessSpec:
    made = process(plan, roster, rank, _rank_variables(plan, roster, rank))
    first = (host_file.programs(roster.member(rank.node).root),) if host_file.is_alone(plan) else ()
    return replace(made, path_first=(*first, *made.path_first))


def _rank_variables(plan: RankTable, roster: Roster, rank: Rank) -> dict[str, str]:
    listed = {host_file.VARIABLE: host_file.file(roster.member(rank.node).root)} if roster.is_whole else {}
    return {
        "RANK": str(rank.rank),
        "LOCAL_RANK": str(rank.local_rank),
        "WORLD_SIZE": str(plan.world_size),
        "LOCAL_WORLD_SIZE": str(plan.processes_per_node),
        "NODE_RANK": str(rank.node),
        "GROUP_RANK": str(rank.node),
        "MASTER_ADDR": roster.master.address,
        "MASTER_PORT": str(roster.port),
        **listed,
    }


LAUNCHER = Launcher(
    "pytorch",
    ranks=lambda shape: ranks(shape.nodes, shape.processes_per_node),
    render=render,
    reserved=lambda _: SET,
    starter=starter,
    more_ports=more_ports,
    needs_all_nodes=host_file.is_needed,
    can_nest=lambda _: True,
    serves_gloo=True,
)
