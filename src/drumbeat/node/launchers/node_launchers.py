"""The table of the launchers that have a part on a node."""

from __future__ import annotations

from drumbeat.node.launchers.launcher import NodeLauncher
from drumbeat.node.launchers.mpi import launcher as mpi
from drumbeat.node.launchers.ray import launcher as ray
from drumbeat.node.launchers.remote import node_addresses

_PYTORCH = NodeLauncher(
    prepare=lambda round_: node_addresses.make(round_.plan, round_.roster, round_.node, round_.secret)
)
"""PyTorch's part is a host file, and replacements of ssh and pdsh."""

NODE_LAUNCHERS = {"pytorch": _PYTORCH, "mpi": mpi.LAUNCHER, "ray": ray.LAUNCHER}
"""The launchers' parts by their names in `launchers.launcher_table.LAUNCHERS`."""


def node_launcher(name: str) -> NodeLauncher:
    """Returns the launcher's part on a node; most launchers have an empty one."""
    return NODE_LAUNCHERS.get(name, NodeLauncher())


def clear_all(root: str) -> None:
    """Removes the files that launchers left of an attempt whose agent was killed."""
    for launcher in NODE_LAUNCHERS.values():
        launcher.clear(root)
