"""MPI's part on a node: the MPI that it has, the folder of mpirun's processes, the exit code of a rank that aborts."""

from __future__ import annotations

from drumbeat.agent.launchers.launcher import NodeLauncher, NodeRound
from drumbeat.agent.launchers.mpi import abort_code, folder, installation
from drumbeat.agent.launchers.remote import node_addresses
from drumbeat.launch.container_command import Engine
from drumbeat.protocol.plan import Plan


def check(plan: Plan, _node: int, engine: Engine | None) -> dict[str, str]:
    """Returns the node's MPI. Raises RefusedError if it has none, or one that the job's container can't join."""
    version = installation.find(plan)
    if plan.container and engine:
        installation.require_inside(version, engine, plan.container.image)
    return {"mpi": version}


def prepare(round_: NodeRound) -> None:
    """Makes the folder of mpirun's processes and the host file."""
    folder.note(_note(round_.root), round_.roster, round_.node)
    folder.make(round_.plan, round_.roster, round_.node, round_.secret)
    node_addresses.make(round_.plan, round_.roster, round_.node, round_.secret)


def _note(root: str) -> str:
    return f"{root}/mpi"


LAUNCHER = NodeLauncher(
    check=check,
    prepare=prepare,
    clear=lambda root: folder.clear_noted(_note(root)),
    correct_exit=abort_code.correct_exit,
)
