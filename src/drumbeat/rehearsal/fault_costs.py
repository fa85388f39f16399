"""The cost of a fault in steps and seconds. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from drumbeat.rehearsal.metric_comparison import LoggedPoint


@dataclass(frozen=True)
class Strike:
    """An injected fault. Times are seconds since the epoch."""

    at: float
    until: float
    """When it was undone; `at` if it can't be."""
    target: str
    """The description of the target."""


@dataclass(frozen=True)
class Cost:
    """The cost of a fault."""

    step: int | None = None
    """The last step that was logged before the fault."""
    resumed: int | None = None
    """The first step that was logged after it."""
    lost_steps: int | None = None
    """The number of repeated steps."""
    next_step_s: float | None = None
    """Seconds from the fault to the next step."""
    extra_s: float | None = None
    """How many seconds longer than the unbroken jobs this one took."""


def compute_cost(points: Sequence[LoggedPoint], strike: Strike, restarted_at: float | None, extra_s: float) -> Cost:
    """Returns the cost of a fault by the points of one series. restarted_at: None = no rank was restarted."""
    since = restarted_at if restarted_at is not None else max(strike.at, strike.until)
    before = [point for point in points if point.at <= strike.at]
    after = [point for point in points if point.at > since]
    step = max((point.step for point in before), default=None)
    if not after:
        return Cost(step, None, None, None, extra_s)
    # Steps between the fault and the end of the ranks count as done, so they are lost, too.
    done = max((point.step for point in points if point.at <= since), default=None)
    resumed = after[0].step
    lost = 0 if done is None else max(done - resumed + 1, 0)
    return Cost(step, resumed, lost, after[0].at - strike.at, extra_s)
