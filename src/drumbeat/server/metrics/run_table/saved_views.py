"""The views and charts that users save for an experiment, the same for every user."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from typing import Any

from drumbeat.model.api.runs import CardSize, ChartRequest, RunViewRequest, SavedChart, SavedRunView
from drumbeat.model.errors import NotFoundError, SpecError
from drumbeat.model.principal import Principal
from drumbeat.ports.clock import Clock
from drumbeat.server.metrics.metrics import Metrics
from drumbeat.server.metrics.run_table.experiment_entries import ExperimentEntries
from drumbeat.server.metrics.run_table.run_table import RunQuery

MAX_VIEWS = 100
"""Maximum number of views of an experiment, and of its charts."""
MAX_SIZES = 500


class SavedViews:
    """Keeps the views of experiments: columns, filter, order and groups by a name. Thread-safe."""

    def __init__(self, metrics: Metrics, clock: Clock) -> None:
        self._entries = ExperimentEntries(metrics, clock, "run-views", "view", "views", MAX_VIEWS)

    def all(self, experiment: str) -> list[SavedRunView]:
        """Returns the views of an experiment by name."""
        return [_view(name, entry) for name, entry in self._entries.all(experiment).items()]

    def put(self, experiment: str, name: str, request: RunViewRequest, by: Principal) -> SavedRunView:
        """Saves a view, or replaces it.

        Raises SpecError for a text that can't be parsed, ForbiddenError for another user's view unless `by` is an
        owner, and RefusedError where the experiment has `MAX_VIEWS`.
        """
        RunQuery.parse(request.columns, request.where, request.sort, request.group_by)
        return _view(name, self._entries.put(experiment, name, asdict(request), by))

    def delete(self, experiment: str, name: str, by: Principal) -> None:
        """Deletes a view. Raises NotFoundError; ForbiddenError for another user's view unless `by` is an owner."""
        self._entries.delete(experiment, name, by)


class SavedCharts:
    """Keeps the charts of experiments, which are drawn for each of its jobs. Thread-safe."""

    def __init__(self, metrics: Metrics, clock: Clock) -> None:
        self._entries = ExperimentEntries(metrics, clock, "charts", "chart", "charts", MAX_VIEWS)

    def all(self, experiment: str) -> list[SavedChart]:
        """Returns the charts of an experiment by name."""
        return [_chart(name, entry) for name, entry in self._entries.all(experiment).items()]

    def put(self, experiment: str, name: str, request: ChartRequest, by: Principal) -> SavedChart:
        """Saves a chart, or replaces it.

        Raises SpecError for a scatter chart without a metric on its axis, and another chart with one; ForbiddenError
        for another user's chart unless `by` is an owner; RefusedError where the experiment has `MAX_VIEWS`.
        """
        if (request.kind == "scatter") != bool(request.x):
            what = "a scatter chart has a metric on its axis of x, and no other chart has one"
            raise SpecError(what, where="x")
        return _chart(name, self._entries.put(experiment, name, asdict(request), by))

    def delete(self, experiment: str, name: str, by: Principal) -> None:
        """Deletes a chart. Raises NotFoundError; ForbiddenError for another user's chart unless `by` is an owner."""
        self._entries.delete(experiment, name, by)


class CardSizes:
    """Keeps how large the cards of an experiment's metrics are drawn, by the title of the card. Thread-safe."""

    def __init__(self, metrics: Metrics, clock: Clock) -> None:
        self._entries = ExperimentEntries(metrics, clock, "card-sizes", "card size", "sizes", MAX_SIZES)

    def all(self, experiment: str) -> dict[str, CardSize]:
        """Returns the sizes that aren't normal, by card."""
        return {card: entry["size"] for card, entry in self._entries.all(experiment).items()}

    def put(self, experiment: str, card: str, size: CardSize, by: Principal) -> None:
        """Sets the size of a card for every user.

        Raises ForbiddenError for a card whose size another user has set, unless `by` is an owner; RefusedError where
        the experiment has `MAX_SIZES`.
        """
        if size != "normal":
            self._entries.put(experiment, card, {"size": size}, by)
            return
        with suppress(NotFoundError):
            self._entries.delete(experiment, card, by)


def _view(name: str, entry: dict[str, Any]) -> SavedRunView:
    return SavedRunView(
        name, entry["columns"], entry["where"], entry["sort"], entry["group_by"], entry["person"],
        datetime.fromisoformat(entry["saved_at"]),
    )  # fmt: skip


def _chart(name: str, entry: dict[str, Any]) -> SavedChart:
    saved_at = datetime.fromisoformat(entry["saved_at"])
    return SavedChart(name, entry["kind"], tuple(entry["metrics"]), entry["x"], entry["person"], saved_at)
