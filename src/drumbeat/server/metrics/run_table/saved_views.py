"""The views that users save for an experiment: columns, filter, order and groups by a name, the same for every user."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from drumbeat.model.api.runs import RunViewRequest, SavedRunView
from drumbeat.model.errors import ConflictError, NotFoundError, RefusedError
from drumbeat.model.metrics import JsonObject
from drumbeat.model.principal import Principal, require_own
from drumbeat.ports.clock import Clock
from drumbeat.server.metrics.metric_records import Document
from drumbeat.server.metrics.metrics import Metrics
from drumbeat.server.metrics.run_table.run_table import RunQuery

KIND = "run-views"
"""The kind of the documents: one for each experiment, named by its id."""
MAX_VIEWS = 100
"""Maximum number of views of an experiment."""
_NONE: JsonObject = {"views": {}}


class SavedViews:
    """Keeps the views of experiments. Thread-safe. An experiment is named by its id, which outlives its names."""

    def __init__(self, metrics: Metrics, clock: Clock) -> None:
        self._metrics, self._clock = metrics, clock

    def all(self, experiment: str) -> list[SavedRunView]:
        """Returns the views of an experiment by name."""
        try:
            body = self._metrics.store.document(KIND, experiment).body
        except NotFoundError:
            return []
        return [_view(name, body["views"][name]) for name in sorted(body["views"])]

    def put(self, experiment: str, name: str, request: RunViewRequest, by: Principal) -> SavedRunView:
        """Saves a view, or replaces it.

        Raises SpecError for a text that can't be parsed, ForbiddenError for another user's view unless `by` is an
        owner, and RefusedError where the experiment has `MAX_VIEWS`.
        """
        RunQuery.parse(request.columns, request.where, request.sort, request.group_by)
        entry = {
            "columns": request.columns, "where": request.where, "sort": request.sort, "group_by": request.group_by,
            "person": by.user, "saved_at": self._clock.now().isoformat(),
        }  # fmt: skip

        def add(views: dict[str, Any]) -> dict[str, Any]:
            _require_own(views, name, by)
            if name not in views and len(views) >= MAX_VIEWS:
                raise RefusedError(f"the experiment has {MAX_VIEWS} views", fix="Delete one first.")
            return {**views, name: entry}

        self._change(experiment, add)
        return _view(name, entry)

    def delete(self, experiment: str, name: str, by: Principal) -> None:
        """Deletes a view. Raises NotFoundError; ForbiddenError for another user's view unless `by` is an owner."""

        def remove(views: dict[str, Any]) -> dict[str, Any]:
            if name not in views:
                raise NotFoundError(f"the experiment has no view {name[:80]!r}")
            _require_own(views, name, by)
            return {key: view for key, view in views.items() if key != name}

        self._change(experiment, remove)

    def _change(self, experiment: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        store = self._metrics.store
        while True:
            try:
                store.document(KIND, experiment)
            except NotFoundError:
                try:
                    store.add_document(Document(KIND, experiment, 0, _NONE))
                except ConflictError:  # Another user has just saved the first view.
                    continue
            store.change_document(KIND, experiment, 0, lambda body: {"views": change(body["views"])})
            return


def _require_own(views: dict[str, Any], name: str, by: Principal) -> None:
    person = views.get(name, {}).get("person", by.user)
    fix = "Save it by another name, or ask an owner of the server."
    require_own(by, person, f"view {name}", own="their own views", fix=fix)


def _view(name: str, entry: dict[str, Any]) -> SavedRunView:
    return SavedRunView(
        name, entry["columns"], entry["where"], entry["sort"], entry["group_by"], entry["person"],
        datetime.fromisoformat(entry["saved_at"]),
    )  # fmt: skip
