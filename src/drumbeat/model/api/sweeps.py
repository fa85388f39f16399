"""Sweeps as the API shows them: their trials, and the best of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from drumbeat.model.states import State


@dataclass(frozen=True)
class TrialView:
    """A trial of a sweep."""

    number: int
    job: str
    """The name of its job."""
    state: State | None
    """The state of its job; null while the job is being submitted."""
    sentence: str
    parameters: dict[str, Any] = field(default_factory=dict[str, Any])
    value: float | None = None
    """The best value of the primary metric that its rank 0 has reported; null if none, or if it is not a number."""
    last: float | None = None
    reports: int = 0
    """How often rank 0 has reported the primary metric."""
    run: str = ""
    """The run beside its job's own that these come from; empty where they come from its own."""
    stopped: str = ""
    """Why the early termination policy ended it; empty if it did not."""


@dataclass(frozen=True)
class SweepView:
    """A sweep and its trials. best: the number of the best trial so far; null while no trial has a value."""

    name: str
    state: State
    sentence: str
    goal: str
    primary_metric: str
    max_total_trials: int
    max_concurrent_trials: int
    trials: tuple[TrialView, ...]
    best: int | None = None

    @property
    def best_trial(self) -> TrialView | None:
        """The best trial so far."""
        return next((trial for trial in self.trials if trial.number == self.best), None)
