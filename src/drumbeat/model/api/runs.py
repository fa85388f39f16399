"""Tables of runs as the API shows them: rows, columns, groups; the views and charts that an experiment has."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal

from drumbeat.model.api.constraints import NO_OTHER_KEYS, Constraint, limited
from drumbeat.model.primary_metrics import Goal


@dataclass(frozen=True)
class RunColumn:
    """A column of a table of runs. unit: `text`, `number`, `any`, `time` (milliseconds since 1970) or `duration`
    (seconds).
    """

    field: str
    """As queries name it: `state`, `min(metric.val/loss)`."""
    unit: str


@dataclass(frozen=True)
class RunTableRow:
    """A run of a job. values: one for each column, null where the run has none; NaN and the infinities are texts."""

    job: str
    title: str
    """The display name of the job; its name where it has none."""
    experiment: str
    state: str
    reason: str
    type: str
    """`command`, `sweep` or `pipeline`."""
    is_archived: bool
    values: tuple[Any, ...] = ()


@dataclass(frozen=True)
class GroupCell:
    """A column of a group of runs. numbers: how many of its runs have a finite number there.

    mean, low, high: of these; spread: their standard deviation, null for one. common: the value that all have.
    """

    numbers: int
    mean: float | None = None
    spread: float | None = None
    low: float | None = None
    high: float | None = None
    common: Any = None


@dataclass(frozen=True)
class RunGroup:
    """Runs with the same values of the fields by which they are grouped."""

    values: tuple[Any, ...]
    """One for each of these fields."""
    jobs: tuple[str, ...]
    """In the order of the table."""
    cells: tuple[GroupCell, ...]
    """One for each column."""


@dataclass(frozen=True)
class RunTableView:
    """A page of the runs that a filter chooses. total: of all pages. groups: of all runs, where they are grouped."""

    columns: tuple[RunColumn, ...]
    runs: tuple[RunTableRow, ...]
    total: int
    groups: tuple[RunGroup, ...] = ()


@dataclass(frozen=True)
class RunFieldView:
    """A field that runs have. runs: how many. values: how many different ones, of inputs and parameters."""

    field: str
    unit: str
    runs: int
    values: int = 0
    is_default: bool = False
    """Whether it is a column when none are chosen."""
    is_primary: bool = False
    """Whether it is the metric by which these runs are ranked together."""
    goal: Goal | None = None
    """Which values of a metric are better; None = unknown."""


@dataclass(frozen=True)
class RunViewRequest:
    """What a view of an experiment shows; texts as in the query of its runs."""

    __pydantic_config__: ClassVar[dict[str, Any]] = NO_OTHER_KEYS

    columns: str = field(default="", metadata=limited(max_length=4000))
    where: str = field(default="", metadata=limited(max_length=4000))
    sort: str = field(default="", metadata=limited(max_length=4000))
    group_by: str = field(default="", metadata=limited(max_length=4000))


@dataclass(frozen=True)
class SavedRunView:
    """A view that is saved for an experiment, for every user."""

    name: str
    columns: str
    where: str
    sort: str
    group_by: str
    person: str
    """Who saved it."""
    saved_at: datetime


ChartKind = Literal["lines", "scatter", "bars"]
"""Curves over steps or time; points of metrics over another metric; the last values of each rank as bars."""
MetricName = Annotated[str, Constraint(min_length=1, max_length=500)]


@dataclass(frozen=True)
class ChartRequest:
    """What a chart of an experiment draws of each of its jobs."""

    __pydantic_config__: ClassVar[dict[str, Any]] = NO_OTHER_KEYS

    metrics: tuple[MetricName, ...] = field(metadata=limited("Names of metrics.", min_length=1, max_length=20))
    kind: ChartKind = "lines"
    x: str = field(default="", metadata=limited("Of a scatter chart: the metric on the axis of x.", max_length=500))


@dataclass(frozen=True)
class SavedChart:
    """A chart that is saved for an experiment, for every user."""

    name: str
    kind: ChartKind
    metrics: tuple[str, ...]
    x: str
    person: str
    """Who saved it."""
    saved_at: datetime


CardSize = Literal["normal", "wide", "tall", "large"]
"""As others; over the whole row; twice as high; or both."""


@dataclass(frozen=True)
class CardSizeRequest:
    """How large a card of metrics is drawn."""

    __pydantic_config__: ClassVar[dict[str, Any]] = NO_OTHER_KEYS

    card: str = field(metadata=limited("The title of the card.", min_length=1, max_length=500))
    size: CardSize
