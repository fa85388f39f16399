"""One request of an MLflow client, and the checks of its arguments."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from drumbeat.model.errors import NotFoundError
from drumbeat.model.metrics import JsonObject, MetricRecord, Run
from drumbeat.model.mlflow_calls import MlflowArguments, invalid, missing
from drumbeat.server.home_folder import FolderRunFiles
from drumbeat.server.metrics.mlflow.write_scope import OWNER, WriteScope
from drumbeat.server.models.mlflow_rows import ModelRows

if TYPE_CHECKING:
    from drumbeat.server.metrics.tables import SqlMetricStore


@dataclass(frozen=True)
class Call(MlflowArguments):
    """A request to a known route. Methods that read an argument raise MlflowRefusal if it is invalid."""

    store: SqlMetricStore
    files: FolderRunFiles
    models: ModelRows
    rank: int = 0
    """The calling rank of the job; 0 outside of jobs."""
    scope: WriteScope | None = None
    """What the caller may change; None = everything."""
    on_write: Callable[[Run, Sequence[MetricRecord]], None] = lambda _run, _records: None
    """Is called with what is written to a run, before it is."""
    now_ms: int = field(default_factory=lambda: time.time_ns() // 1_000_000)

    def limit(self, default: int, most: int) -> int:
        """Returns `max_results`."""
        limit = self.number("max_results")
        if limit is None:
            return default
        if not 0 < limit <= most:
            raise invalid(f"Invalid value {limit} for parameter 'max_results': it must be from 1 to {most}.")
        return limit

    def flag(self, name: str) -> bool:
        """Returns a boolean argument; false if it is missing."""
        return str(self.arguments.get(name)).lower() in ("true", "1")

    def texts(self, name: str) -> list[str]:
        """Returns an argument that is a list of strings; empty if it is missing."""
        value = self.arguments.get(name)
        given = [value] if not isinstance(value, list) else cast("list[object]", value)
        return [str(one) for one in given if one is not None]

    def run(self) -> Run:
        """Returns the run that the call names."""
        return self.find_run(self.text("run_id", "run_uuid"))

    def find_run(self, run: str) -> Run:
        """Returns a run. Raises MlflowRefusal."""
        try:
            return self.store.run(run)
        except NotFoundError:
            raise missing(f"Run with id={run} not found") from None

    @property
    def owner(self) -> JsonObject:
        """The entries of a new document's body about its creator."""
        return {OWNER: self.scope.mark} if self.scope and self.scope.mark else {}

    def own_run(self) -> Run:
        """Returns the run that the call deletes or restores."""
        run = self.run()
        if self.scope:
            self.scope.require_run(run)
        return run

    def active_run(self) -> Run:
        """Returns the run that the call writes to."""
        run = self.own_run()
        if run.deleted_ms is not None:
            raise invalid(f"The run {run.id} must be in the 'active' state. Current state is deleted.")
        return run


def parse_page_token(offset_token: str) -> int:
    """Returns the index at which a page begins. Raises MlflowRefusal."""
    if not offset_token:
        return 0
    if not offset_token.isdecimal() or not offset_token.isascii() or len(offset_token) > 18:
        raise invalid(f"Invalid page token {offset_token[:80]!r}.")
    return int(offset_token)


def paged(name: str, results: list[Any], call: Call, limit: int) -> JsonObject:
    """Returns a page of a list under a key, with the token of the next page."""
    start = parse_page_token(call.text_or("page_token"))
    page: JsonObject = {name: results[start : start + limit]}
    if start + limit < len(results):
        page["next_page_token"] = str(start + limit)
    return page
