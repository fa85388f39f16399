"""The nodes of a running job as the API shows them: what their agents answer when they are asked."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ProcessView:
    """A process on a node."""

    pid: int
    """As the node's agent sees it: of the machine, or of the agent's own container."""
    born: str
    """With the pid, identifies the process: pids are used again."""
    rank: int = -1
    """The rank that the process runs; -1 = none."""


@dataclass(frozen=True)
class NodeProcesses:
    """The processes of one node of a job."""

    node: int
    host: str
    agent: ProcessView | None = None
    keeper: ProcessView | None = None
    ranks: tuple[ProcessView, ...] = ()
    """The first process of each rank that runs."""
    root: str = ""
    """The attempt's folder on the node."""
    checkpoints: str = ""
    error: str = ""
    """Why the node gave no answer, "" = it did."""
