"""What a fault has cost: steps, and seconds. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from drumbeat.rehearsal.metric_comparison import LoggedPoint


@dataclass(frozen=True)
class Strike:
    """A fault as it was carried out. Times are seconds since the epoch."""

    at: float
    until: float
    """When it was undone; `at` for what isn't."""
    target: str
    """Who was hit, in words."""


@dataclass(frozen=True)
class Cost:
    """What a fault has cost."""

    step: int | None = None
    """The last step that was logged before the fault."""
    resumed: int | None = None
    """The first step that was logged after it."""
    lost_steps: int | None = None
    """Steps that were done again."""
    next_step_s: float | None = None
    """Seconds from the fault to the next step."""
    extra_s: float | None = None
    """Seconds that the job has taken longer than the unbroken ones."""


def cost_of(points: Sequence[LoggedPoint], strike: Strike, restarted_at: float | None, extra_s: float) -> Cost:
    """Returns what a fault has cost by the points of one series. restarted_at: None = no rank was started again."""
    since = restarted_at if restarted_at is not None else max(strike.at, strike.until)
    before = [point for point in points if point.at <= strike.at]
    after = [point for point in points if point.at > since]
    step = max((point.step for point in before), default=None)
    if not after:
        return Cost(step, None, None, None, extra_s)
    # Steps between the fault and the end of the ranks count as done: they are lost as well.
    done = max((point.step for point in points if point.at <= since), default=None)
    resumed = after[0].step
    lost = 0 if done is None else max(done - resumed + 1, 0)
    return Cost(step, resumed, lost, after[0].at - strike.at, extra_s)
