"""Where metrics, parameters and tags of runs are kept, and the documents of MLflow's model registry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from drumbeat.model.metrics import JsonObject, Point, Run
from drumbeat.model.mlflow_writes import MAX_METRICS_IN_BATCH

Comparison = Mapping[str, Any]
"""One condition of a search as mlflow's `SearchUtils.parse_search_filter` returns it: type, key, comparator, value."""

Order = tuple[str, str, bool]
"""What a search sorts by: type (`attribute`, `metric`, `parameter`, `tag`), key, whether ascending."""

View = Literal["active", "deleted", "all"]


@dataclass(frozen=True)
class Experiment:
    """A group of runs."""

    id: str
    name: str
    created_ms: int
    updated_ms: int
    is_archived: bool = False
    """Archived here is what MLflow calls deleted: hidden from lists until it is restored."""
    tags: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class RunPage:
    """A page of runs. token: asks for the next page; "" = this is the last."""

    runs: tuple[Run, ...]
    token: str = ""


@dataclass(frozen=True)
class RunSearch:
    """Which runs to return. Every comparison must hold."""

    experiments: tuple[str, ...] = ()
    """Ids of experiments; empty = all."""
    comparisons: tuple[Comparison, ...] = ()
    orders: tuple[Order, ...] = ()
    """After these the latest start comes first, then the lower id."""
    view: View = "active"
    limit: int = 1000
    token: str = ""


@dataclass(frozen=True)
class HistoryPage:
    """Points of one series in the order of arrival."""

    points: tuple[Point, ...]
    after: int
    """What `history` is to be called with to go on: for the next page, or for points that arrive later."""
    is_last: bool
    """Whether these are the last points that have arrived so far."""


@dataclass(frozen=True)
class RefusedParam:
    """A parameter that was logged with another value than the one that is kept."""

    run: str
    key: str
    kept: str
    refused: str


@dataclass(frozen=True)
class Taken:
    """How far the records of a source have been taken, and which parameters of these were not."""

    offset: int
    refused: tuple[RefusedParam, ...] = ()


RECENT_POINTS = 2 * MAX_METRICS_IN_BATCH
"""Of a series, with which those are compared that are written: a batch is known again behind another one."""

NEXT_VERSION = -1
"""As the version of a new document: the number after the highest that its name ever had, counted from 1."""


@dataclass(frozen=True)
class Document:
    """One JSON document: a registered model, a version of it, a logged model."""

    kind: str
    name: str
    version: int
    """0 where this kind has no versions."""
    body: JsonObject
