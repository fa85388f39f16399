"""Horovod's Gloo controller: the variables that `horovodrun --gloo` sets for each rank, and the ranks' rendezvous.

Horovod's MPI controller asks MPI. Its Gloo controller, which a job chooses by Horovod's own variable, reads variables
and calls an HTTP store, which runs beside rank 0 (`node.launchers.horovod`). Names as in Horovod's gloo_run.py.
"""

from __future__ import annotations

from dataclasses import replace

from drumbeat.launchers.launcher_table import launcher_for
from drumbeat.model.plan import Plan, Rank, RankTable
from drumbeat.model.process import ProcessSpec
from drumbeat.model.roster import Roster

CONTROLLER = "HOROVOD_CONTROLLER"
PORT = "HOROVOD_GLOO_RENDEZVOUS_PORT"
SET = (
    "HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE", "HOROVOD_CROSS_RANK",
    "HOROVOD_CROSS_SIZE", "HOROVOD_HOSTNAME", "HOROVOD_GLOO_RENDEZVOUS_ADDR", PORT,
)  # fmt: skip
"""The variables that such a job can't set itself."""
TIMEOUT_S = "300"
"""How far apart ranks may start, and how long they wait for a silent one. Importing Horovod from a slow disk can take
longer than Horovod's default of 30 s.
"""


def is_served(plan: Plan) -> bool:
    """Whether the job has chosen the Gloo controller, under a launcher that can serve it."""
    return launcher_for(plan).serves_gloo and is_gloo(plan.variables.get(CONTROLLER, ""))


def is_gloo(controller: str) -> bool:
    """Whether a value of Horovod's variable, case-insensitively, chooses the Gloo controller."""
    return controller.lower() == "gloo"


def more_ports(plan: Plan, node: int) -> int:
    """Returns 1 on node 0, for the store."""
    return int(is_served(plan) and node == 0)


def with_rendezvous(process: ProcessSpec, plan: Plan, roster: Roster, rank: Rank) -> ProcessSpec:
    """Returns the rank's process with Horovod's variables; rank 0 gets the store beside it."""
    member = roster.member(rank.node)
    interface = member.interface or ("lo" if plan.nodes == 1 else "")
    defaults = {"HOROVOD_CPU_OPERATIONS": "gloo", "HOROVOD_GLOO_TIMEOUT_SECONDS": TIMEOUT_S}
    defaults |= {"HOROVOD_GLOO_IFACE": interface} if interface else {}
    return replace(
        process,
        set={**process.set, **_rank_variables(plan, roster, rank)},
        defaulted={**process.defaulted, **defaults},
        rendezvous=f"{roster.master.address} {_port(roster)}" if rank.rank == 0 else "",
    )


def _rank_variables(plan: RankTable, roster: Roster, rank: Rank) -> dict[str, str]:
    return {
        "HOROVOD_RANK": str(rank.rank),
        "HOROVOD_SIZE": str(plan.world_size),
        "HOROVOD_LOCAL_RANK": str(rank.local_rank),
        "HOROVOD_LOCAL_SIZE": str(plan.processes_per_node),
        "HOROVOD_CROSS_RANK": str(rank.node),
        "HOROVOD_CROSS_SIZE": str(plan.nodes),
        "HOROVOD_HOSTNAME": f"node-{rank.node}",  # Several nodes may be on one machine.
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": roster.master.address,
        PORT: str(_port(roster)),
    }


def _port(roster: Roster) -> int:
    """Returns the last port that node 0 holds; 0 = unknown, as in a preview."""
    return next(reversed(roster.held(0)), 0)
