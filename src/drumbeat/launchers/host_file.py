"""The job's nodes for other launchers: a host file, and programs that reach the other nodes.

If the job's command runs once on each node, it may itself be a launcher that starts processes on the other nodes by ssh
or pdsh (`drumbeat.node.launchers.remote` replaces both). Each node then runs a command server, and stays until the
commands of all nodes have ended.
"""

from __future__ import annotations

from collections import Counter

from drumbeat.model.plan import Plan, RankTable
from drumbeat.model.roster import Roster

VARIABLE = "DLTS_HOSTFILE"
"""The variable with the path of the host file: the name that DeepSpeed reads by default."""

HOST_LIST = "AZ_BATCH_HOST_LIST"
"""Has the addresses of all nodes, as Azure Batch gives it."""

MAX_LISTED_NODES = 64
"""Up to so many nodes each node has all hosts, whatever its job: that is some 2 KB on the wire."""


def is_alone(plan: Plan) -> bool:
    """Whether the node runs a single copy of the job's command, which sees the node's own programs."""
    return plan.launcher == "pytorch" and plan.processes_per_node == 1 and plan.container is None


def is_needed(plan: Plan) -> bool:
    """Whether a job's nodes must know all hosts, for the file or for `HOST_LIST`.

    Ranks that meet at node 0 need neither: they have both up to `MAX_LISTED_NODES`, and where the command names one.
    """
    is_named = any(word in plan.command for word in ("hostfile", VARIABLE, HOST_LIST))
    return is_alone(plan) or is_named or plan.nodes <= MAX_LISTED_NODES


def is_visited(plan: Plan) -> bool:
    """Whether nodes accept commands from each other."""
    return is_alone(plan) and plan.nodes > 1


def file(root: str) -> str:
    """The host file of the node whose attempt folder is `root`: `../hostfile` for its ranks."""
    return f"{root}/hostfile"


def folder(root: str) -> str:
    """The folder of the replacements of ssh and pdsh and their settings."""
    return f"{root}/remote"


def programs(root: str) -> str:
    """The folder of the programs that replace ssh and pdsh."""
    return f"{folder(root)}/bin"


def names(roster: Roster) -> list[str]:
    """Each node's name in the host file: its address, or `node-0`, … where several nodes share one."""
    addresses = [member.address for member in roster.members]
    is_shared = len(set(addresses)) < len(addresses)
    return [f"node-{member.node}" if is_shared else member.address for member in roster.members]


def text(plan: RankTable, roster: Roster) -> str:
    """The host file. A node has as many slots as the job has GPUs there, else as many as it has ranks."""
    lines = zip(names(roster), roster.members, strict=True)
    return "".join(f"{name} slots={len(member.gpus) or plan.processes_per_node}\n" for name, member in lines)


def known_as(roster: Roster) -> list[list[str]]:
    """For each node, the names that identify it alone."""
    names_by_node = [
        dict.fromkeys((name, member.address, member.host, f"node-{member.node}"))
        for name, member in zip(names(roster), roster.members, strict=True)
    ]
    count = Counter(name for names in names_by_node for name in names)
    return [[name for name in names if count[name] == 1] for names in names_by_node]


def port(roster: Roster, node: int) -> int:
    """The port of a node's command server: the node's second port, or its only one; 0 = unknown."""
    held = roster.held(node)
    return next(iter(held[1:] or held), 0)
