"""A launcher's part on a node: a record, which each launcher with such a part defines."""

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
    """The secret that the attempt's nodes share; the round's keys are derived from it."""

    @property
    def root(self) -> str:
        """The attempt's folder on the node."""
        return self.roster.member(self.node).root


@dataclass(frozen=True)
class NodeLauncher:
    """A node's work for a launcher, besides the processes that `launchers.render` describes."""

    check: Callable[[Plan, int, ContainerEngine | None], dict[str, str]] = lambda _plan, _node, _engine: {}
    """Returns what the node has for the launcher, as fields of its `Member`. Raises RefusedError if something is
    missing. The engine is that of the job's container, None = no container.
    """
    prepare: Callable[[NodeRound], None] = lambda _round: None
    """Creates the files that the round's processes need, before they start. Raises DrumbeatError or OSError."""
    wrap: Callable[[NodeRound, list[ProcessSpec]], list[ProcessSpec]] = lambda _round, ranks: ranks
    """Returns the ranks' processes as they are started."""
    clear: Callable[[str], None] = lambda _root: None
    """Removes what `prepare` created outside the attempt's folder `root`, even for an agent that was killed. It reads a
    record in a file below `root`/launchers (`node.host.gangs` looks there).
    """
    correct_exit: Callable[[RankExit], RankExit] = lambda ended: ended
    """Returns the exit of a rank, corrected where its exit code misleads."""
