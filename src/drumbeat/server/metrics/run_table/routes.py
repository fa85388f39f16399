"""Routes of tables of runs and of the views that are saved for an experiment."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import Depends, Path, Query

from drumbeat.core.run_queries.tokens import MAX_TEXT
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
from drumbeat.server.context import ControlOf, PrincipalOf
from drumbeat.server.control import Control
from drumbeat.server.jobs.job_filter import JobFilter, RequestedJobs
from drumbeat.server.metrics.run_table.run_table import RunQuery
from drumbeat.server.routing import new_router

router = new_router("/api/v1", tags=["metrics"])

MAX_LIMIT = 2000
COLUMNS = "Fields with commas: `state,input.lr,metric.val/acc,min(metric.loss)`; default ones when absent."
WHERE = "MLflow's filter, with more fields and `~`: `metric.loss < 0.5 and input.lr >= 0.01 and error ~ KeyError`."
SORT = "Fields with commas, each with `desc` if it descends: `metric.val/acc desc, name`; newest first when absent."
GROUP_BY = "Fields with commas: runs with the same values are a group, with mean and spread of each column."

Experiment = Annotated[str, Path(description="The experiment's current or earlier name.")]
ViewName = Annotated[str, Path(min_length=1, max_length=100)]


def _query(
    columns: Annotated[str, Query(max_length=MAX_TEXT, description=COLUMNS)] = "",
    where: Annotated[str, Query(max_length=MAX_TEXT, description=WHERE)] = "",
    sort: Annotated[str, Query(max_length=MAX_TEXT, description=SORT)] = "",
    group_by: Annotated[str, Query(max_length=MAX_TEXT, description=GROUP_BY)] = "",
) -> RunQuery:
    return RunQuery.parse(columns, where, sort, group_by)


Asked = Annotated[RunQuery, Depends(_query)]
Limit = Annotated[int, Query(ge=0, le=MAX_LIMIT, description="Runs on this page.")]
Offset = Annotated[int, Query(ge=0, description="Runs that are left out before this page.")]


@router.get("/runs")
def list_runs(
    *, control: ControlOf, requested: RequestedJobs, query: Asked, limit: Limit = 100, offset: Offset = 0
) -> RunTableView:
    """Lists the runs of jobs of all experiments as a table."""
    return control.run_table.read(_chosen(control, requested), query, offset, limit)


@router.get("/run-fields")
def list_run_fields(*, control: ControlOf, requested: RequestedJobs) -> list[RunFieldView]:
    """Lists the fields that runs of jobs of all experiments have."""
    return control.run_table.fields(_chosen(control, requested))


@router.get("/experiments/{name:anypath}/runs")
def list_runs_of_experiment(
    *,
    name: Experiment,
    control: ControlOf,
    requested: RequestedJobs,
    query: Asked,
    limit: Limit = 100,
    offset: Offset = 0,
) -> RunTableView:
    """Lists the runs of an experiment as a table."""
    return control.run_table.read(_of_experiment(control, name, requested), query, offset, limit)


@router.get("/experiments/{name:anypath}/run-fields")
def list_run_fields_of_experiment(
    *, name: Experiment, control: ControlOf, requested: RequestedJobs
) -> list[RunFieldView]:
    """Lists the fields that the runs of an experiment have."""
    return control.run_table.fields(_of_experiment(control, name, requested))


@router.get("/experiments/{name:anypath}/views")
def list_views(name: Experiment, control: ControlOf) -> list[SavedRunView]:
    """Lists the views that are saved for an experiment, by name."""
    return control.saved_views.all(control.experiments.named(name)[0].id)


@router.put("/experiments/{name:anypath}/views/{view}")
def save_view(
    name: Experiment, view: ViewName, body: RunViewRequest, control: ControlOf, principal: PrincipalOf
) -> SavedRunView:
    """Saves a view of an experiment for every user, or replaces it."""
    return control.saved_views.put(control.experiments.named(name)[0].id, view, body, principal)


@router.delete("/experiments/{name:anypath}/views/{view}", status_code=204)
def delete_view(name: Experiment, view: ViewName, control: ControlOf, principal: PrincipalOf) -> None:
    """Deletes a view of an experiment."""
    control.saved_views.delete(control.experiments.named(name)[0].id, view, principal)


@router.get("/experiments/{name:anypath}/charts")
def list_charts(name: Experiment, control: ControlOf) -> list[SavedChart]:
    """Lists the charts that are saved for an experiment, by name. They are drawn for each of its jobs."""
    return control.saved_charts.all(control.experiments.named(name)[0].id)


@router.put("/experiments/{name:anypath}/charts/{view}")
def save_chart(
    name: Experiment, view: ViewName, body: ChartRequest, control: ControlOf, principal: PrincipalOf
) -> SavedChart:
    """Saves a chart of an experiment for every user, or replaces it."""
    return control.saved_charts.put(control.experiments.named(name)[0].id, view, body, principal)


@router.delete("/experiments/{name:anypath}/charts/{view}", status_code=204)
def delete_chart(name: Experiment, view: ViewName, control: ControlOf, principal: PrincipalOf) -> None:
    """Deletes a chart of an experiment."""
    control.saved_charts.delete(control.experiments.named(name)[0].id, view, principal)


@router.get("/experiments/{name:anypath}/card-sizes")
def list_card_sizes(name: Experiment, control: ControlOf) -> dict[str, CardSize]:
    """Returns how large cards of an experiment's metrics are drawn, by title; those left out are normal."""
    return control.card_sizes.all(control.experiments.named(name)[0].id)


@router.put("/experiments/{name:anypath}/card-sizes", status_code=204)
def set_card_size(name: Experiment, body: CardSizeRequest, control: ControlOf, principal: PrincipalOf) -> None:
    """Sets how large a card is drawn for each job of an experiment, for every user."""
    control.card_sizes.put(control.experiments.named(name)[0].id, body.card, body.size, principal)


def _chosen(control: Control, requested: JobFilter) -> JobFilter:
    names = [name for one in requested.experiments for name in control.experiments.names_in_jobs(one)]
    return replace(requested, experiments=tuple(names))


def _of_experiment(control: Control, name: str, requested: JobFilter) -> JobFilter:
    own, usage = control.experiments.named(name)
    return replace(requested, experiments=usage.names or (own.name,))
