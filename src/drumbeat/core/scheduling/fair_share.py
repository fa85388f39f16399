"""Fair share: whose jobs come first within a priority, by what each user has used recently. Pure.

The use of a user is counted in slot-hours and halves with each half-life, as Slurm's `PriorityDecayHalfLife` has it
(https://slurm.schedmd.com/priority_multifactor.html). Slurm divides the use by a user's shares; here all are equal.

The order of the queue with all that it depends on is `QueuedJob.rank` in `core/scheduling/queued_job.py`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

GPU_SLOTS = 8
"""A GPU counts as this many CPU slots: about the ratio that machines have."""
HALF_LIFE = timedelta(days=7)
"""The default."""
MAX_AGE = timedelta(days=1)
"""From this age on, a job is ordered by its age alone, so that no job waits for ever."""


@dataclass(frozen=True)
class HeldSlots:
    """The slots that an attempt holds on a compute. since: when they were granted; None = unknown."""

    compute: str
    job: str
    user: str
    experiment: str
    slots: int
    gpus: int
    since: datetime | None = None

    @property
    def rate(self) -> float:
        """Slot-hours for each hour."""
        return self.slots + GPU_SLOTS * self.gpus


@dataclass(frozen=True)
class PastUse:
    """What a user had used until a moment, in slot-hours as they counted then."""

    user: str
    amount: float
    at: datetime


def decayed(amount: float, passed: timedelta, half_life: timedelta) -> float:
    """Returns what an amount counts after a time. A clock that was set back changes nothing."""
    return amount * 0.5 ** (max(0.0, passed.total_seconds()) / half_life.total_seconds())


def slot_hours(held: HeldSlots, now: datetime, half_life: timedelta) -> float:
    """Returns the slot-hours of an attempt so far, decayed by age: the integral of its decaying rate."""
    if held.since is None or now <= held.since:
        return 0.0
    scale_h = half_life.total_seconds() / 3600 / math.log(2)
    return held.rate * scale_h * (1.0 - decayed(1.0, now - held.since, half_life))


def charged(past: PastUse, held: Iterable[HeldSlots], now: datetime, half_life: timedelta) -> PastUse:
    """The past use of a user with attempts that give their slots back now."""
    before = decayed(past.amount, now - past.at, half_life)
    return PastUse(past.user, before + sum(slot_hours(one, now, half_life) for one in held), now)


def recent_use(
    past: Iterable[PastUse], held: Iterable[HeldSlots], now: datetime, half_life: timedelta
) -> dict[str, float]:
    """The slot-hours that count against each user now: of attempts that have ended, and of those that run."""
    use: defaultdict[str, float] = defaultdict(float)
    for one in past:
        use[one.user] += decayed(one.amount, now - one.at, half_life)
    half_life_s = half_life.total_seconds()
    scale_h = half_life_s / 3600 / math.log(2)
    for one in held:  # As `slot_hours` has it, written out: thousands are counted in each pass over a queue.
        if one.since is not None and one.since < now:
            counts = scale_h * (1.0 - 0.5 ** ((now - one.since).total_seconds() / half_life_s))
            use[one.user] += (one.slots + GPU_SLOTS * one.gpus) * counts
    return dict(use)


def describe_use(use: Mapping[str, float], users: Iterable[str], half_life: timedelta) -> str:
    """The numbers by which users were compared, for a waiting sentence."""
    amounts = ", ".join(f"{user or 'unknown'} {use.get(user, 0.0):,.1f}" for user in sorted(set(users)))
    return f"slot-hours of recent use: {amounts} (they halve every {format_half_life(half_life)})"


def format_half_life(half_life: timedelta) -> str:
    """Formats the half-life in the unit that fits it."""
    seconds = half_life.total_seconds()
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= size:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"
