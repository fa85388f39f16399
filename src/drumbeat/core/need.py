"""What a job needs of its compute, how it is to be treated, and what it holds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Need:
    """What each node of a job takes from its compute. alone: it takes every CPU slot that there is."""

    nodes: int
    cpus: int
    gpus: int = 0
    alone: bool = False


@dataclass(frozen=True)
class Policy:
    """What a person set that changes how a job is treated. Higher priority comes first."""

    priority: int = 0
    max_retries: int = 3
    timeout_s: float | None = None
    notify: tuple[str, ...] = ()
    """Notice targets, and addresses of mailboxes, that the end of the job is reported to."""
    notify_on: tuple[str, ...] = ()
    """The states that are reported."""


@dataclass(frozen=True)
class Slot:
    """What one node of an attempt holds of a machine of the compute."""

    node: int
    machine: str
    cpus: int
    gpus: tuple[str, ...] = ()
