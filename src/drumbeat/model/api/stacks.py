"""The stacks of a running job's ranks as the API shows them."""

from __future__ import annotations

from dataclasses import dataclass

from drumbeat.model.stacks import ProcessFacts


@dataclass(frozen=True)
class RankStacks:
    """The processes of one rank, with their stacks."""

    rank: int
    doing: str
    """What the rank does, in a few words."""
    processes: tuple[ProcessFacts, ...] = ()


@dataclass(frozen=True)
class NodeStacks:
    """The ranks of one node of a job."""

    node: int
    host: str
    ranks: tuple[RankStacks, ...] = ()
    error: str = ""
    """Why the node gave no answer, "" = it did."""
