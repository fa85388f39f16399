"""What a parent job knows of its children: the trials of a sweep, the steps of a pipeline."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from drumbeat.protocol.states import State


@dataclass(frozen=True)
class TrialProgress:
    """A trial of a sweep."""

    number: int
    values: dict[str, Any] = field(default_factory=dict[str, Any])
    """The value of each parameter, as the sampler chose it."""
    state: State | None = None
    """The state of its job; None = the job isn't submitted yet."""
    sentence: str = ""
    """Why its job is in that state."""
    reports: int = 0
    """How often rank 0 has reported the primary metric."""
    best: float | None = None
    """The best value that it reported; None = none yet."""
    last: float | None = None
    evaluated: int = 0
    """The number of reports at which the rule for ending trials early was last applied to it."""
    stopped: str = ""
    """Why the rule ended it, "" = it did not."""
    is_canceling: bool = False
    """Whether its job was asked to stop."""

    @property
    def is_active(self) -> bool:
        """Whether its job is submitted and has not ended."""
        return self.state is not None and not self.state.is_terminal

    @property
    def has_ended(self) -> bool:
        """Whether its job has ended."""
        return self.state is not None and self.state.is_terminal

    @property
    def is_good(self) -> bool:
        """Whether it ran to its end, or was ended by the rule: its metric counts."""
        return self.state is State.COMPLETED or (self.has_ended and bool(self.stopped))


@dataclass(frozen=True)
class SweepProgress:
    """A sweep: what was asked for, and the trials so far, by number."""

    goal: str
    """`minimize` or `maximize`."""
    metric: str
    max_trials: int
    max_concurrent: int
    rule: dict[str, Any] = field(default_factory=dict[str, Any])
    """The rule by which trials are ended early, as the job file has it; empty = none."""
    trials: tuple[TrialProgress, ...] = ()
    is_exhausted: bool = False
    """Whether the sampler has no further parameters."""
    is_asking: bool = False
    """Whether the sampler is being asked."""
    ranks: int = 1
    """The ranks of each trial."""
    is_compared: bool = False
    """Whether it was judged from the first trials if trials would finish sooner side by side."""

    @property
    def active(self) -> tuple[TrialProgress, ...]:
        """The trials that take part of `max_concurrent`: submitted or about to be, and not ended."""
        return tuple(trial for trial in self.trials if not trial.has_ended)


def trial_name(sweep: str, number: int) -> str:
    """Returns the name of a trial's job, as Azure ML names child runs."""
    return f"{sweep}_{number}"
