"""One job at a glance, as the API shows it: how good it is among its experiment's jobs, and what it took."""

from __future__ import annotations

from dataclasses import dataclass, field

from drumbeat.model.api.metrics import SeriesView
from drumbeat.model.primary_metrics import Goal


@dataclass(frozen=True)
class RankedJob:
    """A job of the experiment, with its best value of the metric."""

    job: str
    value: float


@dataclass(frozen=True)
class StandingView:
    """How good a job is among those of its experiment for which the same metric counts."""

    metric: str
    goal: Goal
    value: float
    """Its best value."""
    step: int
    rank: int
    """1 = no other job is better."""
    of: int
    """How many jobs were compared, itself included: those of the newest 1,000 that have a value."""
    best: RankedJob
    before: RankedJob | None = None
    """The one that was submitted last before it; null = there is none."""


@dataclass(frozen=True)
class RankUseView:
    """What the ranks of a job used, by the measurements of its nodes; null = it wasn't measured."""

    peak_memory_mib: float | None = None
    """The most memory that one rank had."""
    cpu_cores: float | None = None
    """CPU cores in use by all ranks together, on average."""
    gpu_percent: float | None = None
    """How busy its GPUs were, on average."""
    peak_gpu_memory_mib: float | None = None
    """The most memory in use of one GPU."""


@dataclass(frozen=True)
class OverviewView:
    """A job at a glance."""

    job: str
    held_s: float
    """How long its attempts had nodes."""
    slot_hours: float
    """CPU slots of all nodes times the hours that they were held, at the present number of nodes."""
    gpu_hours: float
    lost_s: float
    """Time of rounds that failed and whose work was not kept, and of waits before another try."""
    inputs: dict[str, str] = field(default_factory=dict[str, str])
    """The inputs of its file, by name: values, and addresses of data."""
    parameters: dict[str, str] = field(default_factory=dict[str, str])
    """The parameters that its script logged."""
    note: str = ""
    """The description of the job, which is the note of its run, `mlflow.note.content`."""
    series: tuple[SeriesView, ...] = ()
    """The metrics of rank 0, but those of the system, in the order in which they began."""
    use: RankUseView = field(default_factory=RankUseView)
    standing: StandingView | None = None
    """Null = no metric counts, it isn't known which values are better, or none is a finite number."""
