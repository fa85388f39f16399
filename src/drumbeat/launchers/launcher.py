"""The record that describes a launcher; each file beside this one defines one.

A new launcher is a file here, one in `node/launchers/` if nodes do something for it, and its line in the tables of both
packages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from drumbeat.model.plan import Plan, Rank
from drumbeat.model.process import ProcessSpec
from drumbeat.model.roster import Roster


@dataclass(frozen=True)
class JobShape:
    """The size of a job, from which launchers assign ranks to nodes."""

    nodes: int
    processes_per_node: int = 1
    workers: int = 0
    servers: int = 0
    has_chief: bool = False
    address: str = ""
    """The address of an existing cluster that the job joins, "" = the job has its own."""


@dataclass(frozen=True)
class Launcher:
    """One launcher: pure functions from a plan and a roster to the processes of a node, and other facts about it."""

    name: str
    ranks: Callable[[JobShape], tuple[Rank, ...]]
    """Assigns the ranks to the nodes."""
    render: Callable[[Plan, Roster, int], list[ProcessSpec]]
    """The processes of a node's ranks, in order of their rank."""
    reserved: Callable[[JobShape], tuple[str, ...]]
    """The variables that the launcher sets and a job can't."""
    check_size: Callable[[int], None] = lambda _ranks: None
    """Raises RefusedError for more ranks than the launcher can name."""
    starter: Callable[[Plan, Roster, int], ProcessSpec | None] = lambda _plan, _roster, _node: None
    """The process that a node runs beside its ranks to start them, None = none."""
    more_ports: Callable[[Plan, int], int] = lambda _plan, _node: 0
    """How many ports a node reserves, beyond the one of every node."""
    preview: Callable[[Plan, Roster], tuple[str, ...]] = lambda _plan, _roster: ()
    """The launcher's own command line, as `drumbeat plan` shows it; () = none."""
    needs_all_nodes: Callable[[Plan], bool] = lambda _plan: True
    """Whether `render` and the launcher's part on a node need the entries of all nodes, not only node 0's."""
    can_nest: Callable[[Plan], bool] = lambda _plan: False
    """Whether the job's command may itself be a launcher that starts its own ranks."""
    serves_gloo: bool = False
    """Whether it runs the job's command once per rank, all alike, which Horovod's Gloo controller requires."""
