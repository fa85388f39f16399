"""What jobs held of computes over time, as the API shows it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class UseGroup(StrEnum):
    """What the series of a history of use are."""

    USER = "person"
    EXPERIMENT = "experiment"
    COMPUTE = "compute"


class UseStep(StrEnum):
    """The width of the parts of a history of use. In UTC they begin at full hours, each 6 h of a day, days, Mondays."""

    HOUR = "hour"
    SIX_HOURS = "6h"
    DAY = "day"
    WEEK = "week"


@dataclass(frozen=True)
class UseSeries:
    """What the jobs of a user, an experiment or a compute held: a number for each part of the history."""

    name: str
    slot_s: tuple[float, ...]
    """Slot-seconds that were held."""
    gpu_s: tuple[float, ...]
    """GPU-seconds that were held."""


@dataclass(frozen=True)
class IdleJob:
    """A job that held slots or GPUs which its ranks didn't use."""

    job: str
    person: str
    """"" = unknown."""
    gpu_s: float
    """GPU-seconds that it held."""
    idle_gpu_s: float
    """Of those: its ranks didn't work yet, no more, or in vain; or they did, and the GPUs weren't busy."""
    slot_s: float
    """Slot-seconds that it held."""
    idle_slot_s: float
    """Of those: its ranks didn't work yet, no more, or in vain."""


@dataclass(frozen=True)
class WaitsView:
    """How long jobs were in queues within the history. jobs: how many were."""

    jobs: int
    p50_s: float | None = None
    """Half of them waited at most so long; null = no job waited."""
    p95_s: float | None = None
    """19 of 20 waited at most so long."""


@dataclass(frozen=True)
class UseHistoryView:
    """What jobs held of one compute, or of all, over time. The totals are those of the ledger of the same time."""

    since: datetime
    until: datetime
    by: UseGroup
    step: UseStep
    compute: str
    """"" = all of them."""
    starts: tuple[datetime, ...]
    """When each part begins. The first one counts from `since` on, and the last one until `until`."""
    lengths_s: tuple[float, ...]
    """How long each part is, within the history."""
    series: tuple[UseSeries, ...]
    """What was held, by whom: the largest first, and what is beyond them under `others`, if there is more."""
    gpu_s: float
    """GPU-seconds that were held, in all."""
    slot_s: float
    """Slot-seconds that were held, in all."""
    work_slot_s: tuple[float, ...]
    """Slot-seconds in which ranks worked: the classes `train` and `checkpoint` of the ledger."""
    busy_gpu_s: tuple[float, ...]
    """GPU-seconds in which ranks worked, times how busy the GPUs were, where nodes measured that."""
    waiting: tuple[float, ...]
    """How many jobs waited, on average."""
    waits: WaitsView
    slots: tuple[float | None, ...] = ()
    """How many slots the usable machines had, on average; null = that isn't known."""
    gpus: tuple[float | None, ...] = ()
    """How many GPUs they had."""
    idle: tuple[IdleJob, ...] = field(default=())
    """The jobs that held the most GPUs without use, or the most slots where no GPU was held; the largest first."""


@dataclass(frozen=True)
class Price:
    """What an hour of a compute costs. A GPU and a slot are paid for each by itself."""

    gpu_hour: float = 0.0
    slot_hour: float = 0.0
    currency: str = ""
    """The same for all computes: setting another one changes it for all."""
