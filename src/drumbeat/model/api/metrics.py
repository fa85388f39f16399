"""Metrics, comparisons and experiments as the API shows them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from drumbeat.model.metrics import RunStatus
from drumbeat.model.primary_metrics import Goal, PrimarySource


@dataclass(frozen=True)
class PointView:
    """One value of a metric. value: `NaN`, `Infinity` and `-Infinity` are strings, as JSON has no numbers for them."""

    step: int
    value: float | str
    at: datetime


@dataclass(frozen=True)
class SeriesView:
    """The summary of one metric of one rank; `rank` -1 is node 0 itself, -2 node 1."""

    name: str
    rank: int
    count: int
    last: PointView
    """The point with the highest step."""
    min: PointView | None = None
    max: PointView | None = None


@dataclass(frozen=True)
class PrimaryView:
    """The metric of a job's rank 0 that counts: its last value, and its best one."""

    name: str
    value: float | str
    step: int
    goal: Goal | None = None
    """Which values are better; null = unknown."""
    best: float | None = None
    """The best finite value; null without a goal, or without such a value."""
    best_step: int | None = None
    """The first step that has the best value."""
    source: PrimarySource = "guess"
    """Who has said that it counts; a guess is by its name."""


@dataclass(frozen=True)
class NotFiniteView:
    """A metric of a job's rank 0 that is no number any more. value: `NaN`, `Infinity` or `-Infinity`."""

    name: str
    value: str
    since_step: int


@dataclass(frozen=True)
class NestedRunView:
    """A run that the ranks of a job created beside the job's own: a fold, say. series: those of rank 0."""

    id: str
    """Its id in MLflow."""
    name: str
    parent: str
    """The id of the run in which it is nested: the job's own where it names none."""
    status: RunStatus
    series: tuple[SeriesView, ...] = ()


@dataclass(frozen=True)
class MetricsView:
    """All metrics of a job, in the order in which they began, and what else its run has."""

    job: str
    run: str
    """The id of its run in MLflow."""
    experiment: str
    status: RunStatus
    series: tuple[SeriesView, ...] = ()
    params: dict[str, str] = field(default_factory=dict[str, str])
    tags: dict[str, str] = field(default_factory=dict[str, str])
    runs: tuple[NestedRunView, ...] = ()
    """The runs beside its own, in the order of their starts."""


@dataclass(frozen=True)
class CurveView:
    """Points of one series in the order of arrival."""

    name: str
    rank: int
    points: tuple[PointView, ...]


@dataclass(frozen=True)
class JobCurveView:
    """A metric of one rank of one of several jobs: points that stand for all, as steps and values of equal number."""

    job: str
    name: str
    rank: int
    steps: tuple[int, ...]
    values: tuple[float | str, ...]


@dataclass(frozen=True)
class HistoryView:
    """A page of a series. after: asks for the points behind it. is_last: no more have arrived so far."""

    name: str
    rank: int
    points: tuple[PointView, ...]
    after: int
    is_last: bool


@dataclass(frozen=True)
class ComparedRow:
    """One line of a comparison. values: one for each job; null = the job has none."""

    section: str
    key: str
    values: tuple[Any, ...]
    goal: Goal | None = None
    """Which values are better, in the row of the metric that counts; null in all others."""


@dataclass(frozen=True)
class ComparisonView:
    """The differences between jobs, and their outcomes."""

    jobs: tuple[str, ...]
    differences: tuple[ComparedRow, ...]
    """Of the job file, code, environment and inputs: only what isn't the same in all."""
    outcomes: tuple[ComparedRow, ...]
    """State, times, failures and the last values of metrics of rank 0."""


@dataclass(frozen=True)
class ExperimentView:
    """An experiment. id: as MLflow's clients know it."""

    id: str
    name: str
    archived: bool
    created_at: datetime
    updated_at: datetime
    jobs: int
    """Jobs that name it, under its present name or an earlier one."""
    latest_at: datetime | None = None
    """When the last of these jobs was submitted."""
    tags: dict[str, str] = field(default_factory=dict[str, str])
    names: tuple[str, ...] = ()
    """The names by which its jobs call it: the present one and earlier ones."""
