"""Runs, their points and the records that change them; `metric_lines` has the lines of records."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from drumbeat.model.primary_metrics import Goal, PrimarySource

RunStatus = Literal["RUNNING", "SCHEDULED", "FINISHED", "FAILED", "KILLED"]
RUN_STATUSES: tuple[RunStatus, ...] = ("RUNNING", "SCHEDULED", "FINISHED", "FAILED", "KILLED")
"""The words of MLflow for the states of a run."""

MlflowCredential = Literal["MLFLOW_TRACKING_TOKEN", "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"]
MLFLOW_CREDENTIALS: tuple[MlflowCredential, ...] = (
    "MLFLOW_TRACKING_TOKEN", "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD",
)  # fmt: skip
"""The variables of MLflow's clients for the credentials of an MLflow server."""

DEFAULT_EXPERIMENT = "Default"
DEFAULT_EXPERIMENT_ALIAS = "0"
"""The id by which MLflow's clients know the experiment `Default`."""

UPDATES = "system/updates/"
"""Begins the names of the metrics that say what rare updates of a training send (`drumbeat.train`)."""
SYSTEM = "system/"
"""Begins the names of metrics that nodes log of themselves and their ranks; none is a job's primary metric."""

SET_EXPERIMENT = "drumbeat.set_experiment"
"""The tag of a job's run with the name of an MLflow experiment that its script chose: the run doesn't move to it."""

NOTE_TAG = "mlflow.note.content"
"""The tag in which MLflow's clients keep the note of a run or an experiment."""

JsonObject = dict[str, Any]


def run_id(job: str) -> str:
    """Returns the id of a job's run: all ranks of all attempts write into it."""
    return hashlib.sha256(f"drumbeat/run/{job}".encode()).hexdigest()[:32]


def experiment_id(name: str) -> str:
    """Returns the id of the experiment with this name, a decimal number as MLflow's clients expect."""
    return str(int(hashlib.sha256(name.encode()).hexdigest()[:15], 16))


def node_rank(node: int) -> int:
    """Returns the rank under which a node's own points are kept: -1 for node 0, -2 for node 1."""
    return -1 - node


class Point(NamedTuple):
    """One value of a metric."""

    name: str
    value: float
    """May be not a number or infinite."""
    step: int
    at_ms: int
    """Milliseconds since 1970, UTC."""


@dataclass(frozen=True)
class Series:
    """What is known of one metric of one rank without reading its points."""

    name: str
    rank: int
    count: int
    last: Point
    """The point with the highest step; among these the latest, then the highest, as in MLflow."""
    min: Point | None
    """The lowest point, the first of several; None = no point is a number."""
    max: Point | None


@dataclass(frozen=True)
class PrimarySeries:
    """The metric of a run that counts."""

    series: Series
    goal: Goal | None
    """Which values are better; None = unknown."""
    best: Point | None
    """The first of its best points that are finite numbers; None without a goal, or without such a point."""
    source: PrimarySource
    """Who has said that it counts."""


@dataclass(frozen=True)
class MetricHighlights:
    """What a list of jobs says of one job's metrics."""

    primary: PrimarySeries | None
    """The metric of rank 0 that counts; None = all that it has logged are times, steps, gradients or the like."""
    not_finite: Point | None = None
    """The first point since which a metric of rank 0 is NaN or infinite."""


@dataclass(frozen=True)
class Run:
    """A run as kept."""

    id: str
    experiment: str
    """Id of the experiment."""
    name: str
    status: RunStatus
    start_ms: int
    end_ms: int | None = None
    user: str = ""
    job: str = ""
    """The job that it belongs to; "" = it was created outside of jobs."""
    deleted_ms: int | None = None
    """When it was deleted; None = it is active."""
    params: Mapping[str, str] = field(default_factory=dict[str, str])
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    datasets: tuple[JsonObject, ...] = ()
    model_inputs: tuple[JsonObject, ...] = ()
    model_outputs: tuple[JsonObject, ...] = ()
    metrics: tuple[Series, ...] = ()
    """The series of rank 0, which are the run's, by name."""


def value_to_json(value: float) -> float | str:
    """Returns the value as JSON has it: `NaN`, `Infinity` and `-Infinity` are strings."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def value_from_json(value: object) -> float:
    """Returns the value of a metric. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise misfit("value", "a number", value)
    try:
        return float(value)
    except (ValueError, OverflowError):
        raise misfit("value", "a number", value) from None


def misfit(key: str, expected: str, value: Any) -> ValueError:
    """Returns the error of a field that holds something else than expected."""
    return ValueError(f"{key}: expected {expected}, got {value!r}"[:200])


class Source(NamedTuple):
    """The spool that records come from: each node of each attempt has one."""

    job: str
    attempt: int
    node: int


@dataclass(frozen=True)
class RunCreated:
    """A run begins. A run that exists already stays as it is."""

    run: str
    experiment: str
    """Id of the experiment."""
    name: str
    start_ms: int
    user: str = ""
    job: str = ""
    """The job whose rank created it; "" = it was created outside of jobs."""
    tags: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class RunUpdated:
    """A run has another status, end or name. An empty field leaves the value as it is."""

    run: str
    status: RunStatus | Literal[""] = ""
    end_ms: int | None = None
    name: str = ""


@dataclass(frozen=True)
class RunDeleted:
    """A run is hidden from searches until it is restored."""

    run: str
    at_ms: int


@dataclass(frozen=True)
class RunRestored:
    """A deleted run is visible again."""

    run: str


@dataclass(frozen=True)
class PointsLogged:
    """A rank, or with `node_rank` a node, logged points in this order."""

    run: str
    rank: int
    points: tuple[Point, ...]


@dataclass(frozen=True)
class ParamsLogged:
    """Parameters of a run, which never change: the first value of a key is kept."""

    run: str
    params: dict[str, str]


@dataclass(frozen=True)
class TagsSet:
    """Tags of a run have these values; the last value of a key is kept."""

    run: str
    tags: dict[str, str]


@dataclass(frozen=True)
class TagDeleted:
    """A run has no tag with this key any more."""

    run: str
    key: str


@dataclass(frozen=True)
class InputsLogged:
    """A run used these datasets and models, each in the JSON of MLflow's `DatasetInput` and `ModelInput`."""

    run: str
    datasets: tuple[JsonObject, ...] = ()
    models: tuple[JsonObject, ...] = ()


@dataclass(frozen=True)
class OutputsLogged:
    """A run produced these models, each in the JSON of MLflow's `ModelOutput`."""

    run: str
    models: tuple[JsonObject, ...] = ()


MetricRecord = (
    RunCreated
    | RunUpdated
    | RunDeleted
    | RunRestored
    | PointsLogged
    | ParamsLogged
    | TagsSet
    | TagDeleted
    | InputsLogged
    | OutputsLogged
)
"""All that is kept of runs arrives as one of these."""
