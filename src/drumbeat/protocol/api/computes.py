"""Computes and aliases as the API shows them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any


class NodeState(StrEnum):
    """The state of a machine of a compute: Azure's six words, and `off` for a machine that could be started."""

    IDLE = "idle"
    RUNNING = "running"
    """Jobs use it."""
    PREPARING = "preparing"
    """It is being started."""
    UNUSABLE = "unusable"
    LEAVING = "leaving"
    """It is being stopped, or says that it will be."""
    PREEMPTED = "preempted"
    """It said that it leaves, and is gone."""
    OFF = "off"
    """It is switched off, and is started when a job needs it."""


@dataclass(frozen=True)
class MachineView:
    """A machine of a compute. word: the engine's own for its state. unusable: why nothing may be started on it now."""

    name: str
    cpus: int
    gpus: tuple[str, ...]
    memory_mib: int
    state: NodeState
    word: str
    unusable: str
    why: str = ""
    """Why it is in its state, "" = there is nothing to say."""
    since: datetime | None = None
    """When it entered its state: as its cluster tells, else as the server saw it."""
    is_for_gpus: bool = False
    """Only jobs with GPUs may run on it."""


@dataclass(frozen=True)
class HeldView:
    """What one node of a job's attempt holds of a machine."""

    job: str
    attempt: int
    node: int
    machine: str
    cpus: int
    gpus: tuple[str, ...]


class Tier(StrEnum):
    """Whether the machines of a compute can be taken away for other jobs."""

    DEDICATED = "dedicated"
    LOW_PRIORITY = "low_priority"


@dataclass(frozen=True)
class ScaleView:
    """How many machines a compute has, at least and at most, and when an idle one is switched off.

    idle_time_s, start_timeout_s, usual_start_s: None = never; no limit; not known yet. set_by: by key of the compute's
    file, the cluster's setting that is in effect instead.
    """

    min_instances: int
    max_instances: int
    idle_time_s: float | None
    start_timeout_s: float | None
    usual_start_s: float | None
    tier: Tier
    set_by: dict[str, str]


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
    scale: ScaleView | None = None
    """How many machines there are; None = that isn't known yet."""
    remarks: tuple[str, ...] = ()
    """What of its file is otherwise than the cluster has it."""

    @property
    def machines_for_all(self) -> tuple[MachineView, ...]:
        """The machines on which jobs run that ask for no GPUs: all, if each is kept for jobs with GPUs."""
        return tuple(one for one in self.machines if not one.is_for_gpus) or self.machines


@dataclass(frozen=True)
class AliasView:
    """What a cloud's name stands for on this server."""

    kind: str
    name: str
    target: str
