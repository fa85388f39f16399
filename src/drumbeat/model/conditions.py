"""Conditions of a job: what its nodes watch its metrics for, and what each has seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class ConditionAction(StrEnum):
    """What follows when a condition is met."""

    STOP = "stop"
    """The job ends well: its ranks have the grace time to save."""
    NOTIFY = "notify"


class ConditionKind(StrEnum):
    """What a condition is about."""

    NAN = "nan"
    NOT_FINITE = "not_finite"
    """Not a number, or infinite."""
    ABOVE = "above"
    BELOW = "below"
    NO_BETTER = "no_better"
    """No report was better than the best one before, for a number of reports."""
    GPU_BELOW = "gpu_below"
    """The GPUs of a node are used less than a limit, for a time."""
    IDLE = "idle"
    """No user sends anything to a node, and its processes do nothing, for a time."""


EVERYWHERE = (ConditionKind.GPU_BELOW, ConditionKind.IDLE)
"""Conditions that a job meets when all of its nodes meet them; the others, when one does."""

ANY_RANK = -1


@dataclass(frozen=True)
class JobCondition:
    """One condition of a job, with every default filled in."""

    action: ConditionAction
    kind: ConditionKind
    metric: str = ""
    limit: float = 0.0
    """Of a metric, or percent of the GPUs."""
    reports: int = 0
    """The number of reports without a better one."""
    min_delta: float = 0.0
    """The least by which a report must be better to count as such."""
    is_higher_better: bool = False
    rank: int = ANY_RANK
    """Whose values count."""
    lasting_s: float = 0.0
    """For how long it must be so."""
    delay: int = 0
    """The number of first reports that can't meet it."""

    @property
    def is_everywhere(self) -> bool:
        """Whether all nodes must meet it."""
        return self.kind in EVERYWHERE

    def is_warning_of(self, other: JobCondition) -> bool:
        """Whether it is met a while before another one that ends the job."""
        is_pair = self.kind is other.kind is ConditionKind.IDLE and self.action is ConditionAction.NOTIFY
        return is_pair and self.lasting_s < other.lasting_s

    def __str__(self) -> str:
        share = self.limit if self.kind is ConditionKind.GPU_BELOW else 0.0
        texts = {
            ConditionKind.NAN: f"{self.metric} is not a number",
            ConditionKind.NOT_FINITE: f"{self.metric} is not finite",
            ConditionKind.ABOVE: f"{self.metric} above {self.limit:g}",
            ConditionKind.BELOW: f"{self.metric} below {self.limit:g}",
            ConditionKind.NO_BETTER: f"{self.metric} no better for {self.reports} reports",
            ConditionKind.GPU_BELOW: f"GPUs below {share:g} % for {format_time(self.lasting_s)}",
            ConditionKind.IDLE: f"idle for {format_time(self.lasting_s)}",
        }
        return texts[self.kind]


@dataclass(frozen=True)
class ConditionState:
    """What a node has seen of one condition: a level."""

    condition: int
    """Its place among the plan's conditions."""
    times: int
    """How often it became true on this node, in this attempt."""
    is_met: bool
    """Whether it is true now."""
    sentence: str
    """What made it true the last time."""


def format_time(seconds: float) -> str:
    """Returns a time as files have it: `90 s`, `30 min`, `1.5 h`."""
    if seconds < 120:
        return f"{seconds:g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"


def ends_alone(conditions: Sequence[JobCondition], states: Sequence[ConditionState], nodes: int) -> bool:
    """Whether what one node of so many has seen is enough to end the job."""
    for state in states:
        condition = conditions[state.condition]
        is_met = (state.is_met and nodes == 1) if condition.is_everywhere else state.times > 0
        if is_met and condition.action is ConditionAction.STOP:
            return True
    return False
