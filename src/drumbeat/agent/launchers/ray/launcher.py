"""Ray's part on a node: whether it has Ray, the folder of the job's own cluster, and the wait for all of its nodes."""

from __future__ import annotations

from drumbeat.agent.launchers.launcher import NodeLauncher, NodeRound
from drumbeat.agent.launchers.ray import folder, installation
from drumbeat.launch.container_command import Engine
from drumbeat.protocol.plan import LauncherOptions, Plan
from drumbeat.protocol.process import ProcessSpec


def check(plan: Plan, node: int, _engine: Engine | None) -> dict[str, str]:
    """Raises RefusedError if the cluster's part on this node can't begin."""
    installation.check(plan, node)
    return {}


def prepare(round_: NodeRound) -> None:
    """Makes the folder of the node's Ray, if the cluster is the job's own."""
    if _has_cluster(round_.plan):
        folder.note(_note(round_.root), round_.roster, round_.node)
        folder.make(round_.plan, round_.roster, round_.node, round_.secret)


def wrap(round_: NodeRound, ranks: list[ProcessSpec]) -> list[ProcessSpec]:
    """Returns the ranks of the job's own cluster, which wait for one another."""
    if not _has_cluster(round_.plan):
        return ranks
    python = installation.python(round_.plan)
    return [folder.waiting(rank, round_.plan, round_.roster, round_.node, python) for rank in ranks]


def _has_cluster(plan: LauncherOptions) -> bool:
    return plan.ray is not None and not plan.ray.address


def _note(root: str) -> str:
    return f"{root}/ray"


LAUNCHER = NodeLauncher(check=check, prepare=prepare, wrap=wrap, clear=lambda root: folder.clear_noted(_note(root)))
