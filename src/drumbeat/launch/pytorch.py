"""PyTorch: the user's command once per rank, with the variables that `init_process_group("env://")` reads.

Names as torchrun sets them (PyTorch's elastic run documentation), so that a script can't tell the difference. One
process per node is also how the users' own launchers are run: they read NODE_RANK, MASTER_ADDR and MASTER_PORT.
"""

from __future__ import annotations

from drumbeat.launch.ranks import process
from drumbeat.protocol.plan import Plan, Rank
from drumbeat.protocol.process import ProcessSpec
from drumbeat.protocol.roster import Roster

SET = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT")
"""The variables that belong to this launcher: a job can't set them itself."""


def ranks(nodes: int, processes_per_node: int) -> tuple[Rank, ...]:
    """Ranks are dealt node by node: node 0 has 0 … p-1, node 1 has p … 2p-1."""
    return tuple(
        Rank(rank=node * processes_per_node + local, node=node, local_rank=local)
        for node in range(nodes)
        for local in range(processes_per_node)
    )


def render(plan: Plan, roster: Roster, node: int) -> list[ProcessSpec]:
    """One process per rank of the node."""
    return [process(plan, roster, rank, _of_rank(plan, roster, rank)) for rank in plan.ranks if rank.node == node]


def _of_rank(plan: Plan, roster: Roster, rank: Rank) -> dict[str, str]:
    return {
        "RANK": str(rank.rank),
        "LOCAL_RANK": str(rank.local_rank),
        "WORLD_SIZE": str(plan.world_size),
        "LOCAL_WORLD_SIZE": str(plan.processes_per_node),
        "NODE_RANK": str(rank.node),
        "GROUP_RANK": str(rank.node),
        "MASTER_ADDR": roster.master.address,
        "MASTER_PORT": str(roster.port),
    }
