"""Records of the store of metrics: experiments, searches, histories, and documents of MLflow's model registry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from drumbeat.model.metrics import JsonObject, Point, Run
from drumbeat.model.mlflow_writes import MAX_METRICS_IN_BATCH

Comparison = Mapping[str, Any]
"""A condition of a search, as from mlflow's `SearchUtils.parse_search_filter`: type, key, comparator, value."""

Order = tuple[str, str, bool]
"""A sort key of a search: type (`attribute`, `metric`, `parameter`, `tag`), key, whether ascending."""

View = Literal["active", "deleted", "all"]


@dataclass(frozen=True)
class Experiment:
    """A group of runs."""

    id: str
    name: str
    created_ms: int
    updated_ms: int
    is_archived: bool = False
    """Whether it is hidden from lists, which MLflow calls deleted."""
    tags: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class RunPage:
    """A page of runs. token: of the next page; "" = this is the last one."""

    runs: tuple[Run, ...]
    token: str = ""


@dataclass(frozen=True)
class RunSearch:
    """A search for runs. All comparisons must hold."""

    experiments: tuple[str, ...] = ()
    """Ids of experiments; empty = all."""
    comparisons: tuple[Comparison, ...] = ()
    orders: tuple[Order, ...] = ()
    """Sort keys, followed by the start, latest first, and the id."""
    view: View = "active"
    limit: int = 1000
    token: str = ""


UseKind = Literal["metric", "param", "tag"]
"""What scripts log by a name."""


@dataclass(frozen=True)
class FieldUse:
    """A metric, parameter or tag of runs. runs: how many have it. values: of a parameter, how many different ones."""

    kind: UseKind
    key: str
    runs: int
    values: int


@dataclass(frozen=True)
class HistoryPage:
    """Points of one series in the order of arrival."""

    points: tuple[Point, ...]
    after: int
    """The argument of `history` for the next page, or for points that arrive later."""
    is_last: bool
    """Whether these include the last point so far."""


@dataclass(frozen=True)
class RefusedParam:
    """A parameter that was logged with another value than the stored one."""

    run: str
    key: str
    kept: str
    refused: str


@dataclass(frozen=True)
class Taken:
    """The offset up to which the records of a source have been taken, and the parameters that were refused."""

    offset: int
    refused: tuple[RefusedParam, ...] = ()


RECENT_POINTS = 2 * MAX_METRICS_IN_BATCH
"""The number of last points of a series with which new ones are compared, to recognize a repeated batch."""

NEXT_VERSION = -1
"""The version of a new document that gets the number after the highest that its name ever had, from 1."""


@dataclass(frozen=True)
class Document:
    """One JSON document: a registered model, a version of it, a logged model."""

    kind: str
    name: str
    version: int
    """0 = this kind has no versions."""
    body: JsonObject
