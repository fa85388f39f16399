"""The ledger as the API shows it: where the wall time of jobs went."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class TimeClass(StrEnum):
    """The use of a second of a job's wall time. Each second is in exactly one class."""

    QUEUE = "queue"
    """The job waited for its turn, for free slots, or in the cluster's own queue."""
    PROVISION = "provision"
    """Its nodes were being started."""
    STAGE = "stage"
    """Code and inputs were brought to the nodes, or outputs and logs were saved."""
    ENVIRONMENT = "environment"
    """A node built the environment of the ranks, or pulled their image."""
    START = "start"
    """The ranks were starting: from their start until a rank logged its first value."""
    TRAIN = "train"
    """The ranks worked, and no failure threw their work away."""
    CHECKPOINT = "checkpoint"
    """The ranks saved a checkpoint."""
    LOST = "lost"
    """Work since the last checkpoint, or since the start, that a failure threw away; and the end of that round."""
    STALL = "stall"
    """The ranks stood still."""


class LedgerGroup(StrEnum):
    """What the rows of a ledger are. Days and weeks are those of UTC."""

    JOB = "job"
    EXPERIMENT = "experiment"
    USER = "person"
    WEEK = "week"
    DAY = "day"
    COMPUTE = "compute"


@dataclass(frozen=True)
class LedgerRow:
    """Where the wall time of some jobs went, and what they held meanwhile."""

    name: str
    """The job, experiment, user or compute; the day, or the Monday of the week, such as `2026-11-23`."""
    jobs: int
    """How many jobs have time in the row."""
    wall_s: float
    """The sum of their wall time, from submission to the end or to now."""
    seconds: dict[TimeClass, float] = field(default_factory=dict[TimeClass, float])
    """Seconds in each class; they sum to `wall_s`."""
    slot_s: float = 0.0
    """Slot-seconds: how long CPU slots were held, summed over the slots."""
    gpu_s: float = 0.0
    """GPU-seconds: how long GPUs were held, summed over the GPUs."""
    slot_seconds: dict[TimeClass, float] = field(default_factory=dict[TimeClass, float])
    """Slot-seconds in each class. Slots that a job gives back after its end count as `stage` until then."""
    gpu_seconds: dict[TimeClass, float] = field(default_factory=dict[TimeClass, float])
    """GPU-seconds in each class."""
    busy_gpu_s: float = 0.0
    """GPU-seconds in `train` and `checkpoint`, times how busy the job's GPUs were, where its nodes measured that."""
    cost: float | None = None
    """What was held at the prices of the computes; null = no compute has a price."""

    def share(self, time_class: TimeClass) -> float:
        """The share of the wall time in a class, from 0 to 1."""
        return self.seconds.get(time_class, 0.0) / self.wall_s if self.wall_s else 0.0


@dataclass(frozen=True)
class LedgerView:
    """The ledger of jobs. Sweeps and pipelines have no rows of their own: their time is that of their jobs."""

    by: LedgerGroup
    since: datetime | None
    """Time before it is left out; null when jobs were named."""
    rows: tuple[LedgerRow, ...]
    total: LedgerRow
    """All rows together; its name is empty."""
    until: datetime | None = None
    """Time after it is left out."""
    currency: str = ""
    """Of the costs."""
