"""The outlook of a job as the API shows it: when it may start, who holds the slots, and when it ends."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class StartView:
    """When a waiting job starts, as far as it can be estimated."""

    job: str
    compute: str
    place: int
    """In the queue of its compute; 1 = it is next."""
    waiting: int
    """How many jobs are in that queue."""
    at: datetime | None
    """Null = unknown: `sentence` says why."""
    latest: datetime | None
    """When it starts at the latest, by the time limits of those before it; null = one of them has none."""
    sentence: str
    """The estimate with its ground, or why there is none."""


@dataclass(frozen=True)
class HolderView:
    """A job that holds slots of a compute, and when it ends."""

    job: str
    person: str
    nodes: int
    cpus: int
    gpus: int
    since: datetime | None
    """When its ranks first started; null = they have not."""
    step: int | None
    """The last step of its metric that counts."""
    steps: int | None
    """How many its script said it takes, by a parameter such as `max_steps`."""
    deadline: datetime | None
    """When its time limit is reached; null = it has none, or its ranks have not started."""
    ends_at: datetime | None
    """When it ends, by `ground`; null = unknown."""
    ground: str
    is_limit: bool = False
    """Whether its time limit is all that is known: it may end sooner."""
    is_hanging: bool = False


@dataclass(frozen=True)
class OutlookView:
    """When a job that waits may start, or when one that runs ends."""

    job: str
    start: StartView | None = None
    """Null = the job doesn't wait for slots."""
    holders: tuple[HolderView, ...] = ()
    """Of a job that waits, those that hold slots of its compute, the ones that hold most first."""
    fewer: str = ""
    """With how many nodes it would start now: `2 nodes would start now`; "" = with none."""
    own: HolderView | None = None
    """The job itself while its ranks run; null = they don't."""
