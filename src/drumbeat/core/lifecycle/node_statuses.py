"""What the agents of an attempt said last, with what is counted over them.

A report must cost as much in a gang of 4,000 nodes as in one of two: nothing that is decided for each report walks over
all nodes. The counts go along from one value of the statuses to the next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterator
from dataclasses import replace
from enum import Enum

from drumbeat.model.agent import VOID, WAITS, AgentStatus, Phase, RankExit

NodeExit = tuple[int, RankExit]
"""A node, and how one of its ranks ended."""


class Mark(Enum):
    """What statuses are counted by; for some of them in each round."""

    MISSING = "missing"
    """Nodes whose agents have said nothing yet."""
    BUILDS = "builds"
    WAITS = "waits"
    """Nodes that say what they wait for."""
    PREEMPTED = "preempted"
    LOST = "lost"
    """Nodes whose ranks are gone with their supervisor."""
    EXITS = "exits"
    """Ranks that have ended, by round."""
    FAILURES = "failures"
    """Ranks that have failed, by round."""
    WELL = "well"
    """Ranks that have exited 0 before they were stopped, by round."""


class NodeStatuses(tuple[AgentStatus | None, ...]):  # noqa: SLOT001 (the counts are kept beside the items)
    """The latest status of each node, None until its agent enrolled."""

    _counts: Counter[Hashable] | None = None
    """Made when it is first asked for."""
    _first_failure: tuple[int, NodeExit | None] | None = None
    """The round that it was last looked for in, and the failure."""

    def with_status(self, node: int, status: AgentStatus) -> NodeStatuses:
        """Returns the statuses with the latest one of a node."""
        before, items = self[node], list(self)
        status = fenced(before, status)
        items[node] = status
        after = NodeStatuses(items)
        counts = self._counted.copy()
        counts.subtract(dict(_marks(before)))
        counts.update(dict(_marks(status)))
        after._counts = counts
        after._first_failure = self._failure_after(node, status)
        return after

    def count(self, mark: Mark) -> int:
        """How many nodes have a mark."""
        return self._counted[mark]

    def count_ranks(self, mark: Mark, round: int) -> int:
        """How many ranks of a round have a mark."""
        return self._counted[mark, round]

    def count_nodes(self, phases: Collection[Phase], round: int | None) -> int:
        """How many nodes are in one of these phases of a round, None = of any."""
        return sum(self._counted[phase, round] for phase in phases)

    def first_failure(self, round: int) -> NodeExit | None:
        """The failure of a round that came first, None = there is none."""
        if self._first_failure is None or self._first_failure[0] != round:
            failures = (one for node, status in enumerate(self) for one in _failures(node, status, round))
            self._first_failure = round, min(failures, key=when_ended, default=None)
        return self._first_failure[1]

    @property
    def _counted(self) -> Counter[Hashable]:
        if self._counts is None:
            self._counts = Counter[Hashable]()
            for status in self:
                self._counts.update(dict(_marks(status)))
        return self._counts

    def _failure_after(self, node: int, status: AgentStatus) -> tuple[int, NodeExit | None] | None:
        """The first failure with a node's latest status; None = it must be looked for."""
        if self._first_failure is None or self._first_failure[0] != status.round:
            return None
        first = self._first_failure[1]
        if first is not None and first[0] == node and first[1] not in status.exits:
            return None
        failures = _failures(node, status, status.round)
        return status.round, min((*failures, *([first] if first else [])), key=when_ended, default=None)


def fenced(before: AgentStatus | None, status: AgentStatus) -> AgentStatus:
    """Returns a status whose proof of identity is void if another agent of this node, or any other process with
    its secret, has given another proof in this attempt.
    """
    if before is None or not before.handover or before.handover == status.handover:
        return status
    return replace(status, handover=VOID)


def when_ended(one: NodeExit) -> tuple[float, int]:
    """Orders exits by when they came."""
    return one[1].at, one[1].order


def _failures(node: int, status: AgentStatus | None, round: int) -> list[NodeExit]:
    if status is None or status.round != round:
        return []
    return [(node, one) for one in status.exits if one.is_failure]


def _marks(status: AgentStatus | None) -> Iterator[tuple[Hashable, int]]:
    """Yields how a status counts. Each mark comes once."""
    if status is None:
        yield Mark.MISSING, 1
        return
    yield (status.phase, status.round), 1
    yield (status.phase, None), 1
    if status.builds_environment:
        yield Mark.BUILDS, 1
    if WAITS in status.detail:
        yield Mark.WAITS, 1
    if status.is_preempted:
        yield Mark.PREEMPTED, 1
    if status.lost:
        yield Mark.LOST, 1
    if status.exits:
        failed = sum(one.is_failure for one in status.exits)
        yield (Mark.EXITS, status.round), len(status.exits)
        yield (Mark.FAILURES, status.round), failed
        yield (Mark.WELL, status.round), sum(not one.is_failure and not one.is_stopped for one in status.exits)
