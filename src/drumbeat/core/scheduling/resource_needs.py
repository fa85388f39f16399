"""The resources that a job needs and holds, and its policy."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Need:
    """What each node of a job takes from its compute. alone: the job takes every CPU slot of the compute."""

    nodes: int
    cpus: int
    gpus: int = 0
    alone: bool = False
    min_nodes: int = 0
    """The fewest nodes that an elastic job starts with; 0 = its number of nodes is fixed."""
    max_nodes: int = 0
    """The most nodes that an elastic job grows to; 0 = its number of nodes is fixed."""

    @property
    def is_elastic(self) -> bool:
        """Whether the number of nodes may change."""
        return self.max_nodes > 0

    @property
    def least(self) -> Need:
        """The smallest need with which the job can start."""
        return replace(self, nodes=self.min_nodes) if self.is_elastic else self

    def sizes(self, most: int) -> tuple[Need, ...]:
        """The needs with which the job may start, the one with `most` nodes first."""
        return tuple(replace(self, nodes=nodes) for nodes in range(most, self.least.nodes - 1, -1))


@dataclass(frozen=True)
class JobPolicy:
    """The policy of a job, as its user set it. Higher priority comes first."""

    priority: int = 0
    max_retries: int = 3
    timeout_s: float | None = None
    notify: tuple[str, ...] = ()
    """Notice targets, and addresses of mailboxes, that the end of the job is reported to."""
    notify_on: tuple[str, ...] = ()
    """The states that are reported."""
    retry_delay_s: float = 10.0
    """Seconds before the ranks start again after a failure that recurs; twice as many after each further one."""
    max_retry_delay_s: float = 300.0
    is_retry_asked: bool = True
    """Whether the job sets `max_retries` itself: then its program's own failures are retried without a checkpoint, too.
    Records of earlier versions don't say it."""


@dataclass(frozen=True)
class Slot:
    """The share of a machine that one node of an attempt holds."""

    node: int
    machine: str
    cpus: int
    gpus: tuple[str, ...] = ()
