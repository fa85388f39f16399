"""A launcher's part on a node: a record, of which each launcher that has one makes its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from drumbeat.launchers.container_command import ContainerEngine
from drumbeat.model.agent import RankExit
from drumbeat.model.plan import Plan
from drumbeat.model.process import ProcessSpec
from drumbeat.model.roster import Roster


@dataclass(frozen=True)
class NodeRound:
    """One round on one node."""

    plan: Plan
    roster: Roster
    node: int
    secret: str
    """Shared by the attempt's nodes: keys for the round are made from it."""

    @property
    def root(self) -> str:
        """The attempt's folder on the node."""
        return self.roster.members[self.node].root


@dataclass(frozen=True)
class NodeLauncher:
    """What a node does for a launcher beside starting the processes that `launchers.render` describes."""

    check: Callable[[Plan, int, ContainerEngine | None], dict[str, str]] = lambda _plan, _node, _engine: {}
    """Returns what the node has of the launcher, as fields of its `Member`. Raises RefusedError if it lacks something.

    The engine is that of the job's container, None = it has none."""
    prepare: Callable[[NodeRound], None] = lambda _round: None
    """Makes what the round's processes need, before they start. Raises DrumbeatError or OSError."""
    wrap: Callable[[NodeRound, list[ProcessSpec]], list[ProcessSpec]] = lambda _round, ranks: ranks
    """Returns the ranks as they are started."""
    clear: Callable[[str], None] = lambda _root: None
    """Removes what `prepare` made outside the attempt's folder `root`, also for an agent that was killed.

    What it goes by stands in a file below `root`/launchers (`node.host.gangs` looks there)."""
    correct_exit: Callable[[RankExit], RankExit] = lambda ended: ended
    """Returns how a rank ended, where its exit code doesn't say it."""
