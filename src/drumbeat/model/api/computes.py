"""Computes and aliases as the API shows them."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from drumbeat.model.api.constraints import limited


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
class Machine:
    """A machine of a compute: what it has, and how it is.

    word: the engine's own for how it is. unusable: why nothing may be started on it now, "" = it may be; what runs
    there already isn't touched by that. is_awaited: it was asked for the first time and hasn't answered yet.
    """

    name: str
    cpus: int
    gpus: tuple[str, ...] = ()
    memory_mib: int = 0
    word: str = ""
    unusable: str = ""
    is_awaited: bool = False
    state: NodeState = NodeState.IDLE
    """As its engine sees it. The API shows as running those, too, whose slots drumbeat has given to jobs."""
    why: str = ""
    """Why it is in that state, "" = no reason is known, or `unusable` has it."""
    since: datetime | None = None
    """When it entered that state: as its cluster tells, else, in the API, as the server saw it."""
    is_for_gpus: bool = False
    """Only jobs with GPUs may run on it."""


@dataclass(frozen=True)
class HeldView:
    """The share of a machine that one node of a job's attempt holds."""

    job: str
    attempt: int
    node: int
    machine: str
    cpus: int
    gpus: tuple[str, ...]
    is_hanging: bool = field(default=False, metadata=limited("Whether the job hangs.", exclude_if=operator.not_))
    person: str = ""
    """Whose job it is; "" = unknown."""
    since: datetime | None = None
    """Since when it is held; null = unknown."""


class Tier(StrEnum):
    """Whether the machines of a compute can be taken away for other jobs."""

    DEDICATED = "dedicated"
    LOW_PRIORITY = "low_priority"


@dataclass(frozen=True)
class Scale:
    """How many machines a compute has, at least and at most, and when they come and go: the numbers in effect.

    start_timeout_s: how long a machine may take to start. usual_start_s: how long it usually takes here.
    """

    min_instances: int
    max_instances: int
    idle_time_s: float | None = None
    """After so long without a job a machine is switched off; None = never."""
    start_timeout_s: float | None = None
    usual_start_s: float | None = None
    tier: Tier = Tier.DEDICATED
    set_by: dict[str, str] = field(default_factory=dict[str, str])
    """By key of a compute's file, what sets it instead: a setting of the cluster's. Empty = the file itself does."""


@dataclass(frozen=True)
class ComputeView:
    """A compute: its machines, the slots that jobs hold, and how many jobs wait.

    trouble: why no job can start there now. spec: what a user wrote; empty for a built-in compute.
    """

    name: str
    engine: str
    machines: tuple[Machine, ...]
    held: tuple[HeldView, ...]
    waiting: int
    trouble: str
    spec: dict[str, Any]
    scale: Scale | None = None
    """How many machines there are; None = that isn't known yet."""
    remarks: tuple[str, ...] = ()
    """Where the cluster's settings differ from its file."""

    @property
    def machines_for_all(self) -> tuple[Machine, ...]:
        """The machines on which jobs run that ask for no GPUs: all, if each is kept for jobs with GPUs."""
        return tuple(one for one in self.machines if not one.is_for_gpus) or self.machines


@dataclass(frozen=True)
class AliasView:
    """What a cloud's name stands for on this server."""

    kind: str
    name: str
    target: str
