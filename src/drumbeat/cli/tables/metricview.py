"""Metrics of a job, comparisons of jobs, and experiments as tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from drumbeat.cli.terminal.formatting import count, say_ago, say_moment, say_value
from drumbeat.cli.terminal.screen import cell, fill_table, heading, make_table, pairs
from drumbeat.protocol.api.metrics import (
    ComparedRow,
    ComparisonView,
    ExperimentView,
    MetricsView,
    PointView,
    SeriesView,
)

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

LOG_HINT = "It logs with mlflow.log_metric(...) or drumbeat.log(...)."


def render_metrics(logged: MetricsView, shown: Sequence[SeriesView]) -> Iterator[RenderableType]:
    """Yields the table of the series that are shown, what isn't shown, and the parameters."""
    if not logged.series:
        yield cell(f"{logged.job} has logged no metrics. {LOG_HINT}")
    else:
        table = make_table(
            "metric", ">last", ">step", ">lowest", ">at step", ">highest", ">at step", ">rank", ">points"
        )
        yield fill_table(table, map(_series, shown))
        if rest := _not_shown(logged, shown):
            yield cell(rest, "dim")
    if logged.params:
        yield heading("Parameters")
        yield pairs(sorted(logged.params.items()))


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
