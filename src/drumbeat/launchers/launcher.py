"""What sets one launcher apart from the others: a record, of which each file beside this one makes its own.

A new launcher is a file here, one in `node/launchers/` if a node has anything to do for it, and its line in the tables
of the two rooms.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from drumbeat.model.plan import Plan, Rank
from drumbeat.model.process import ProcessSpec
from drumbeat.model.roster import Roster


@dataclass(frozen=True)
class JobShape:
    """The size of a job, as far as launchers deal ranks by it."""

    nodes: int
    processes_per_node: int = 1
    workers: int = 0
    servers: int = 0
    has_chief: bool = False
    address: str = ""
    """Of a cluster that runs already and that the job joins, "" = it has one of its own."""


@dataclass(frozen=True)
class Launcher:
    """Pure functions from a plan and a roster to the processes of one node, and what else depends on the launcher."""

    name: str
    ranks: Callable[[JobShape], tuple[Rank, ...]]
    """Deals the ranks to the nodes."""
    render: Callable[[Plan, Roster, int], list[ProcessSpec]]
    """The processes of a node's ranks, in order of their rank."""
    reserved: Callable[[JobShape], tuple[str, ...]]
    """The variables that the launcher sets, so that a job can't."""
    check_size: Callable[[int], None] = lambda _ranks: None
    """Raises RefusedError for more ranks than the launcher can name."""
    starter: Callable[[Plan, Roster, int], ProcessSpec | None] = lambda _plan, _roster, _node: None
    """The process that a node runs beside its ranks so that they begin, None = it needs none."""
    more_ports: Callable[[Plan, int], int] = lambda _plan, _node: 0
    """How many ports a node holds beside the one that every node holds."""
    preview: Callable[[Plan, Roster], tuple[str, ...]] = lambda _plan, _roster: ()
    """The launcher's own line, as `drumbeat plan` shows it; () = it has none."""
    can_nest: Callable[[Plan], bool] = lambda _plan: False
    """Whether the job's command may be a launcher itself, which starts ranks of its own."""
    serves_gloo: bool = False
    """Whether it runs the job's command once per rank, all alike, which Horovod's Gloo controller requires."""
