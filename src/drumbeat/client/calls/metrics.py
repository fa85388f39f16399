"""The calls of `Client` that are about metrics, comparisons, where time went, and experiments."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from drumbeat.client.connection import Connection, part
from drumbeat.client.responses import view, views
from drumbeat.model.api.ledger import LedgerGroup, LedgerView
from drumbeat.model.api.metrics import (
    ComparisonView,
    CurveView,
    ExperimentView,
    HistoryView,
    JobCurveView,
    MetricsView,
    PointView,
)
from drumbeat.model.api.overview import OverviewView
from drumbeat.model.api.resources import ResourcesView
from drumbeat.model.api.runs import (
    CardSize,
    CardSizeRequest,
    ChartRequest,
    RunFieldView,
    RunTableView,
    RunViewRequest,
    SavedChart,
    SavedRunView,
)
from drumbeat.model.api.use import UseGroup, UseHistoryView
from drumbeat.model.metrics import MLFLOW_CREDENTIALS
from drumbeat.model.primary_metrics import Goal
from drumbeat.model.wire import to_wire

MAX_RUNS = 2000
"""Maximum number of runs that the server lists at once."""


def _times(since: datetime | None, until: datetime | None) -> dict[str, str]:
    return {key: at.isoformat() for key, at in (("since", since), ("until", until)) if at is not None}


class MetricCalls:
    """A part of `Client`."""

    connection: Connection

    def set_mlflow_server(self, url: str | None, credentials: Mapping[str, str] | None = None) -> None:
        """Names the MLflow server that the server copies all runs to, across restarts; None = none.

        credentials: by MLflow's variables, such as MLFLOW_TRACKING_TOKEN; None = those in the environment, but for the
        token of the drumbeat server itself. Raises RefusedError, ConflictError.
        """
        given = os.environ if credentials is None else credentials
        sent = {name: given[name] for name in MLFLOW_CREDENTIALS if given.get(name)}
        if credentials is None and sent.get("MLFLOW_TRACKING_TOKEN") == self.connection.where.secret():
            del sent["MLFLOW_TRACKING_TOKEN"]
        body = {"url": url or "", "credentials": sent if url else {}}
        self.connection.call("PUT", "/mlflow-server", json=body)

    def metrics(self, name: str, *, rank: int | None = None) -> MetricsView:
        """Returns all metrics of a job, each with its last, lowest and highest point, and its parameters and tags.

        rank: only of this rank; node 0 itself is -1, node 1 -2. Raises NotFoundError.
        """
        params = {} if rank is None else {"rank": rank}
        return view(MetricsView, self.connection.call("GET", f"/jobs/{part(name)}/metrics", params=params))

    def log_artifact(self, name: str, path: str, content: bytes) -> None:
        """Writes a file among the artifacts of a job's run, as MLflow's clients do, also after the job's end.

        It is then `outputs/mlflow-artifacts/<run>/<path>` among the job's files. Raises NotFoundError for a job that
        doesn't exist, and RefusedError for a file that the server doesn't take.
        """
        self.connection.put_artifact(f"{self.metrics(name).run}/artifacts/{path}", content, name)

    def curves(
        self, name: str, metrics: Sequence[str] = (), *, rank: int | None = None, max_points: int = 1000
    ) -> list[CurveView]:
        """Returns curves of at most `max_points` logged points: first, last, and the lowest and highest of each part.

        metrics: their names; () = all. rank: only of this rank. Raises NotFoundError for a job that doesn't exist.
        """
        params: dict[str, Any] = {"metric": list(metrics), "max_points": max_points}
        if rank is not None:
            params["rank"] = rank
        return views(CurveView, self.connection.call("GET", f"/jobs/{part(name)}/metrics/curves", params=params))

    def points(self, name: str, metric: str, *, rank: int = 0) -> Iterator[PointView]:
        """Yields all points of a metric of one rank in the order of arrival. Raises NotFoundError."""
        after = 0
        while True:
            params = {"metric": metric, "rank": rank, "after": after}
            answer = self.connection.call("GET", f"/jobs/{part(name)}/metrics/history", params=params)
            page = view(HistoryView, answer)
            yield from page.points
            if page.is_last:
                return
            after = page.after

    def curves_of_jobs(
        self, *names: str, parent: str = "", metric: str = "", max_points: int = 60
    ) -> list[JobCurveView]:
        """Returns one curve of rank 0 of each of these jobs, and of the trials or steps of `parent`.

        metric: "" = the primary metric of each job.
        """
        given: dict[str, Any] = {"job": names, "parent": parent, "metric": metric, "max_points": max_points}
        return views(JobCurveView, self.connection.call("GET", "/curves", params=given))

    def compare(self, *names: str) -> ComparisonView:
        """Returns what differs between 2 to 200 jobs, and what came of them. Raises NotFoundError, SpecError."""
        return view(ComparisonView, self.connection.call("GET", "/compare", params={"job": names}))

    def ledger(
        self,
        *names: str,
        by: str = LedgerGroup.JOB,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int | None = None,
    ) -> LedgerView:
        """Returns where the wall time of jobs went, and what they held: of these jobs and their children, else of all.

        by: `job`, `experiment`, `person`, `compute`, `day` or `week`. since: time before is left out; None = 30 days
        ago. until: time after is left out; None = now. limit: the most rows. Raises NotFoundError, SpecError.
        """
        params: dict[str, Any] = {"by": str(by), "job": list(names), **_times(since, until)}
        if limit is not None:
            params["limit"] = limit
        return view(LedgerView, self.connection.call("GET", "/ledger", params=params))

    def job_resources(self, name: str, *, max_parts: int = 120) -> ResourcesView:
        """Returns what the nodes and ranks of a job use over time, how well they use it, and who is idle.

        max_parts: of the job's time. Raises NotFoundError.
        """
        params = {"max_parts": max_parts}
        return view(ResourcesView, self.connection.call("GET", f"/jobs/{part(name)}/resources", params=params))

    def use(
        self,
        compute: str = "",
        *,
        by: str = UseGroup.USER,
        since: datetime | None = None,
        until: datetime | None = None,
        step: str | None = None,
    ) -> UseHistoryView:
        """Returns what jobs held of a compute, or of all (""), over time, what was free, and how long jobs waited.

        by: `person`, `experiment` or `compute`. since: None = 30 days ago. until: None = now. step: `hour`, `6h`,
        `day` or `week`; None = what fits. Raises SpecError, RefusedError.
        """
        params = {"by": str(by), "compute": compute, **_times(since, until), **({"step": str(step)} if step else {})}
        return view(UseHistoryView, self.connection.call("GET", "/use", params=params))

    def overview(self, name: str) -> OverviewView:
        """Returns a job at a glance: how good it is among those of its experiment, and what it took.

        Raises NotFoundError.
        """
        return view(OverviewView, self.connection.call("GET", f"/jobs/{part(name)}/overview"))

    def experiments(self, *, archived: bool = False) -> list[ExperimentView]:
        """Returns experiments, the last created first. archived: these too."""
        params = {"archived": "all" if archived else "false"}
        return views(ExperimentView, self.connection.call("GET", "/experiments", params=params))

    def experiment(self, name: str) -> ExperimentView:
        """Returns the experiment that has, or had before, this name. Raises NotFoundError."""
        return view(ExperimentView, self.connection.call("GET", "/experiments/named", params={"name": name}))

    def rename_experiment(self, name: str, to: str) -> ExperimentView:
        """Gives an experiment another name; jobs that are submitted with the earlier one still belong to it.

        Raises NotFoundError; ConflictError for a name that another experiment has or had.
        """
        return self._change("rename", {"name": name, "to": to})

    def archive_experiment(self, name: str) -> ExperimentView:
        """Hides an experiment and its runs; nothing is deleted. Raises NotFoundError."""
        return self._change("archive", {"name": name})

    def restore_experiment(self, name: str) -> ExperimentView:
        """Shows an archived experiment again. Raises NotFoundError."""
        return self._change("restore", {"name": name})

    def write_experiment_note(self, name: str, note: str, *, seen: str | None = None) -> ExperimentView:
        """Writes the note of an experiment; "" removes it. seen: what it said when it was read, None = in any case.

        Raises NotFoundError, ForbiddenError; ConflictError with both texts in `fields` if it has changed since.
        """
        body = {"note": note, "seen": seen}
        return view(ExperimentView, self.connection.call("PUT", "/experiments/note", params={"name": name}, json=body))

    def set_primary_metric(self, experiment: str, metric: str, goal: Goal | None = None) -> ExperimentView:
        """Names the metric that counts for all jobs of an experiment. goal: None = as its name says.

        Raises NotFoundError.
        """
        params = {"name": experiment, "metric": metric, **({"goal": goal} if goal else {})}
        return view(ExperimentView, self.connection.call("PUT", "/experiments/primary", params=params))

    def clear_primary_metric(self, experiment: str) -> ExperimentView:
        """Leaves it to each job, and to the names of its metrics, which one counts. Raises NotFoundError."""
        return view(ExperimentView, self.connection.call("DELETE", "/experiments/primary", params={"name": experiment}))

    def runs(  # noqa: PLR0913 - each condition is a word of its own
        self,
        *,
        columns: str = "",
        where: str = "",
        sort: str = "",
        group_by: str = "",
        experiment: str | None = None,
        parent: str | None = None,
        archived: bool = False,
        limit: int = 1000,
    ) -> RunTableView:
        """Returns runs of jobs as a table, with the values of any of their fields.

        columns, sort, group_by: fields with commas, like `input.lr, metric.val/acc desc`; default columns, the newest
        first, and no groups for "". where: a filter, like `metric.loss < 0.5 and error ~ KeyError`. parent: only the
        trials of this sweep or the steps of this pipeline; "" = only jobs that are neither. archived: these too.
        limit: any number. Raises SpecError for a text that can't be parsed; its `where` is the parameter and the place.
        """
        params: dict[str, Any] = {"columns": columns, "where": where, "sort": sort, "group_by": group_by}
        params |= {"archived": "all" if archived else "false"}
        params |= {key: value for key, value in (("experiment", experiment), ("parent", parent)) if value is not None}
        table: RunTableView | None = None
        while True:
            read = len(table.runs) if table else 0
            page = {"offset": read, "limit": min(limit - read, MAX_RUNS)}
            more = view(RunTableView, self.connection.call("GET", "/runs", params=params | page))
            table = replace(table, runs=(*table.runs, *more.runs)) if table else more
            if not more.runs or len(table.runs) >= min(limit, more.total):
                return table

    def run_fields(self, experiment: str | None = None) -> list[RunFieldView]:
        """Returns the fields that runs have: of an experiment, or of all. Raises NotFoundError."""
        path = "/run-fields" if experiment is None else f"/experiments/{part(experiment)}/run-fields"
        return views(RunFieldView, self.connection.call("GET", path))

    def run_views(self, experiment: str) -> list[SavedRunView]:
        """Returns the views that are saved for an experiment, by name. Raises NotFoundError."""
        return views(SavedRunView, self.connection.call("GET", f"/experiments/{part(experiment)}/views"))

    def save_run_view(self, experiment: str, name: str, request: RunViewRequest) -> SavedRunView:
        """Saves a view of an experiment for every user, or replaces it. Its texts are those of `runs`.

        Raises NotFoundError, SpecError; ForbiddenError for another user's view.
        """
        path = f"/experiments/{part(experiment)}/views/{part(name)}"
        return view(SavedRunView, self.connection.call("PUT", path, json=to_wire(request)))

    def delete_run_view(self, experiment: str, name: str) -> None:
        """Deletes a view of an experiment. Raises NotFoundError; ForbiddenError for another user's view."""
        self.connection.call("DELETE", f"/experiments/{part(experiment)}/views/{part(name)}")

    def charts(self, experiment: str) -> list[SavedChart]:
        """Returns the charts that are saved for an experiment, by name. Raises NotFoundError."""
        return views(SavedChart, self.connection.call("GET", f"/experiments/{part(experiment)}/charts"))

    def save_chart(self, experiment: str, name: str, request: ChartRequest) -> SavedChart:
        """Saves a chart, which the page draws for each job of an experiment, or replaces it.

        Raises NotFoundError, SpecError; ForbiddenError for another user's chart.
        """
        path = f"/experiments/{part(experiment)}/charts/{part(name)}"
        return view(SavedChart, self.connection.call("PUT", path, json=to_wire(request)))

    def delete_chart(self, experiment: str, name: str) -> None:
        """Deletes a chart of an experiment. Raises NotFoundError; ForbiddenError for another user's chart."""
        self.connection.call("DELETE", f"/experiments/{part(experiment)}/charts/{part(name)}")

    def card_sizes(self, experiment: str) -> dict[str, CardSize]:
        """Returns how large the page draws cards of an experiment's metrics, by title. Raises NotFoundError."""
        return self.connection.call("GET", f"/experiments/{part(experiment)}/card-sizes")

    def set_card_size(self, experiment: str, card: str, size: CardSize) -> None:
        """Sets how large the page draws a card for each job of an experiment.

        Raises NotFoundError; ForbiddenError for a card whose size another user has set.
        """
        body = to_wire(CardSizeRequest(card, size))
        self.connection.call("PUT", f"/experiments/{part(experiment)}/card-sizes", json=body)

    def _change(self, verb: str, params: dict[str, str]) -> ExperimentView:
        return view(ExperimentView, self.connection.call("POST", f"/experiments/{verb}", params=params))
