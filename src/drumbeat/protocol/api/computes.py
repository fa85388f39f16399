"""Computes and aliases as the API shows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class MachineView:
    """A machine of a compute. word: the engine's own for its state. unusable: why nothing may be started on it now."""

    name: str
    cpus: int
    gpus: tuple[str, ...]
    memory_mib: int
    state: Literal["idle", "running", "unusable"]
    word: str
    unusable: str


@dataclass(frozen=True)
class HeldView:
    """What one node of a job's attempt holds of a machine."""

    job: str
    attempt: int
    node: int
    machine: str
    cpus: int
    gpus: tuple[str, ...]


@dataclass(frozen=True)
class ComputeView:
    """A compute: its machines, the slots that jobs hold, and how many jobs wait.

    trouble: why no job can start there now. spec: what a person wrote; empty for a built-in compute.
    """

    name: str
    engine: str
    machines: tuple[MachineView, ...]
    held: tuple[HeldView, ...]
    waiting: int
    trouble: str
    spec: dict[str, Any]


@dataclass(frozen=True)
class AliasView:
    """What a cloud's name stands for on this server."""

    kind: str
    name: str
    target: str
