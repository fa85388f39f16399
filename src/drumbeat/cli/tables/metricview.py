"""Metrics of a job, comparisons of jobs, and experiments as tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from drumbeat.cli.tables.curveview import sparkline
from drumbeat.cli.terminal.formatting import count, say_ago, say_moment, say_value
from drumbeat.cli.terminal.screen import cell, fill_table, heading, make_table, pairs
from drumbeat.protocol.api.metrics import (
    ComparedRow,
    ComparisonView,
    CurveView,
    ExperimentView,
    MetricsView,
    NestedRunView,
    PointView,
    SeriesView,
)
from drumbeat.protocol.metrics import SET_EXPERIMENT

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

MAX_PARAMETER = 200
"""Characters of a parameter's value that are shown."""
LOG_HINT = "It logs with mlflow.log_metric(...) or drumbeat.log(...)."


def render_metrics(logged: MetricsView, shown: Sequence[SeriesView]) -> Iterator[RenderableType]:
    """Yields the table of the series that are shown, what isn't shown, and the parameters."""
    has_more = any(one.series for one in logged.runs)
    if not logged.series:
        yield cell(
            f"The run of {logged.job} itself has no metrics; those of its other runs are below."
            if has_more
            else f"{logged.job} has logged no metrics. {LOG_HINT}"
        )
    else:
        table = make_table(
            "metric", ">last", ">step", ">lowest", ">at step", ">highest", ">at step", ">rank", ">points"
        )
        yield fill_table(table, map(_series, shown))
        if rest := _not_shown(logged, shown):
            yield cell(rest, "dim")
    if chosen := logged.tags.get(SET_EXPERIMENT):
        yield cell(
            f"The script sets the MLflow experiment {chosen}; the job's run is in {logged.experiment}. "
            f"`experiment_name: {chosen}` in the job file puts it there.",
            "dim",
        )
    if logged.params:
        yield heading("Parameters")
        yield pairs(sorted((name, shorten(value)) for name, value in logged.params.items()))
    if logged.runs:
        yield heading(f"Runs within {logged.job}")
        rows = [
            ("  " * depth + run.name, run.status.lower(), one.name, *_series(one)[1:7], one.count)
            if one
            else ("  " * depth + run.name, run.status.lower(), *[""] * 8)
            for depth, run in _tree(logged.run, logged.runs)
            for one in run.series or (None,)
        ]
        titles = ("run", "status", "metric", ">last", ">step", ">lowest", ">at step", ">highest", ">at step", ">points")
        yield fill_table(make_table(*titles), rows)


def _tree(own: str, runs: Sequence[NestedRunView], depth: int = 0) -> Iterator[tuple[int, NestedRunView]]:
    """Yields the runs below one of them, each with its depth; those of an unknown parent count as the job's."""
    run_ids = {own, *(one.id for one in runs)}
    for run in runs:
        if run.parent == own or (depth == 0 and run.parent not in run_ids):
            yield depth, run
            yield from _tree(run.id, [one for one in runs if one is not run], depth + 1)


def shorten(value: str) -> str:
    """Returns the first MAX_PARAMETER characters of a parameter's value, and how many more it has."""
    rest = len(value) - MAX_PARAMETER
    return value if rest <= 0 else f"{value[:MAX_PARAMETER]}… ({rest:,} more characters)"


def render_results(series: Sequence[SeriesView], curves: Sequence[CurveView]) -> Iterator[RenderableType]:
    """Yields what a job that has ended came to: the last value of each metric, and its curve in one line."""
    lines = {one.name: sparkline(one) for one in curves}
    yield heading("Results")
    table = make_table("metric", ">last", ">step", ">lowest", ">highest", "curve")
    rows = [
        (one.name, say_value(one.last.value), one.last.step, _value_and_step(one.min)[0], _value_and_step(one.max)[0],
         lines.get(one.name, ""))
        for one in series
    ]  # fmt: skip
    yield fill_table(table, rows)


def render_comparison(compared: ComparisonView) -> Iterator[RenderableType]:
    """Yields what differs, and what came of it: one column for each job."""
    yield heading("What differs")
    if compared.differences:
        yield _compared(compared.jobs, compared.differences)
    else:
        yield cell("nothing: job file, code, environment and inputs are the same")
    yield heading("What came of it")
    yield _compared(compared.jobs, compared.outcomes)


def experiment_table(experiments: Iterable[ExperimentView], now: datetime) -> Table:
    """Returns one row for each experiment."""
    rows = [
        (
            one.name + (" (archived)" if one.archived else ""),
            one.jobs,
            say_ago(one.latest_at, now) if one.latest_at else "",
            say_ago(one.created_at, now),
        )
        for one in experiments
    ]
    return fill_table(make_table("experiment", ">jobs", ">latest job", ">created"), rows)


def experiment_pairs(one: ExperimentView) -> Table:
    """Returns what is known of an experiment."""
    earlier = [name for name in one.names if name != one.name]
    return pairs(
        [
            ("experiment", one.name + (" (archived)" if one.archived else "")),
            ("earlier names", ", ".join(earlier)),
            ("id in MLflow", one.id),
            ("jobs", one.jobs),
            ("created", say_moment(one.created_at)),
            ("latest job", say_moment(one.latest_at) if one.latest_at else ""),
            ("tags", ", ".join(f"{key}={value}" for key, value in one.tags.items())),
        ]
    )


def _series(one: SeriesView) -> tuple[object, ...]:
    return (
        one.name,
        say_value(one.last.value),
        one.last.step,
        *_value_and_step(one.min),
        *_value_and_step(one.max),
        one.rank if one.rank >= 0 else f"node {-1 - one.rank}",
        one.count,
    )


def _value_and_step(point: PointView | None) -> tuple[object, object]:
    return (say_value(point.value), point.step) if point else ("", "")


def _not_shown(logged: MetricsView, shown: Sequence[SeriesView]) -> str:
    """Returns which ranks and nodes have more series than are shown, and how to see them."""
    hidden = {one.rank for one in logged.series if one not in shown}
    ranks, nodes = (
        sorted(rank for rank in hidden if rank >= 0),
        sorted((rank for rank in hidden if rank < 0), reverse=True),
    )
    parts = [f"{count(len(ranks), 'rank')} more: --rank {ranks[0]}"] if ranks else []
    parts += [f"{count(len(nodes), 'node')}: --rank {nodes[0]}"] if nodes else []
    return f"Not shown are the metrics of {'; of '.join(parts)}" if parts else ""


def _compared(jobs: Sequence[str], rows: Sequence[ComparedRow]) -> Table:
    table = make_table("", "", *jobs)
    section = ""
    cells: list[list[object]] = []
    for row in rows:
        cells.append([row.section if row.section != section else "", row.key, *map(_value, row.values)])
        section = row.section
    return fill_table(table, cells)


def _value(value: Any) -> str:
    if isinstance(value, float):
        return say_value(value)
    return "–" if value is None else str(value)
