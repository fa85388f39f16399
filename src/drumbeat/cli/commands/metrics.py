"""`metrics`: prints what a job has logged: a table, curves, or every point. `compare`: the differences of jobs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from drumbeat.cli.terminal.connect import connect
from drumbeat.cli.terminal.formatting import bars, count, format_value
from drumbeat.cli.terminal.help import AsJson, Job
from drumbeat.cli.terminal.job_names import find_job
from drumbeat.cli.terminal.json_output import print_json
from drumbeat.cli.terminal.screen import cell, fill_table, heading, make_console, make_table, pairs, show
from drumbeat.cli.terminal.styles import ink_for
from drumbeat.cli.terminal.untrusted_text import make_safe
from drumbeat.model.errors import NotFoundError, SpecError
from drumbeat.model.metrics import SET_EXPERIMENT, SYSTEM
from drumbeat.model.wire import to_wire

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from drumbeat.client import Client
    from drumbeat.model.api.metrics import (
        ComparedRow,
        ComparisonView,
        CurveView,
        MetricsView,
        NestedRunView,
        PointView,
        SeriesView,
    )


Names = Annotated[list[str] | None, typer.Argument(metavar="[NAME]…", help="Names of metrics, to show their curves.")]
Rank = Annotated[
    int | None,
    typer.Option("--rank", metavar="N", help="Only this rank. -1 is node 0 itself, -2 node 1. Default: rank 0."),
]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print all points as CSV: name, rank, step, value, at.")]
Points = Annotated[bool, typer.Option("--json", help="Print all points as JSON: name, rank, step, value, at.")]


def metrics(job: Job, names: Names = None, rank: Rank = None, as_json: Points = False, as_csv: AsCsv = False) -> None:
    """Show what a job has logged: a table of its metrics, or with NAME the curves of these.

    The table has the last value of each metric of rank 0, and its lowest and highest value with their steps. `--json`
    and `--csv` print every point, of all ranks unless `--rank` is given.
    """
    if as_json and as_csv:
        raise SpecError("--json and --csv exclude each other", where="--csv", fix="Give one of them.")
    client = connect()
    name = find_job(client, job).name
    logged = client.metrics(name, rank=rank)
    chosen = _chosen(logged, names or [])
    if as_json or as_csv:
        print_points(_points(client, name, chosen), is_csv=as_csv)
    elif names:
        _print_curves(client, name, chosen if rank is not None else _main(chosen), rank)
    else:
        show(*render_metrics(logged, chosen if rank is not None else _main(chosen)))


def _chosen(logged: MetricsView, names: Sequence[str]) -> list[SeriesView]:
    """Returns the series with these names, or all. Raises NotFoundError for a name that wasn't logged."""
    names_logged = list(dict.fromkeys(one.name for one in logged.series))
    for name in names:
        if name not in names_logged:
            raise _not_logged(logged.job, name, names_logged)
    return [one for one in logged.series if not names or one.name in names]


def _not_logged(job: str, name: str, names_logged: Sequence[str]) -> NotFoundError:
    from difflib import get_close_matches

    close = get_close_matches(name, names_logged, 1)
    fix = f"Did you mean `{close[0]}`?" if close else f"It has logged: {', '.join(names_logged[:20]) or 'nothing'}."
    return NotFoundError(f"job {job} has not logged {name[:80]!r}", fix=fix)


def _main(series: Sequence[SeriesView]) -> list[SeriesView]:
    """Returns the series of rank 0, and those that only other ranks have; system metrics come last."""
    of_rank_0 = {one.name for one in series if one.rank == 0}
    main = [one for one in series if one.rank == 0 or (one.rank > 0 and one.name not in of_rank_0)]
    return sorted(main, key=lambda one: one.name.startswith(SYSTEM))


def _points(client: Client, job: str, series: Sequence[SeriesView]) -> Iterator[dict[str, object]]:
    for one in series:
        for point in client.points(job, one.name, rank=one.rank):
            yield {"name": one.name, "rank": one.rank, "step": point.step, "value": point.value, "at": point.at}


def _print_curves(client: Client, job: str, series: Sequence[SeriesView], rank: int | None) -> None:
    ink = ink_for(sys.stdout)
    wanted = {(one.name, one.rank) for one in series}
    names = list(dict.fromkeys(one.name for one in series))
    curves = [one for one in client.curves(job, names, rank=rank, max_points=400) if (one.name, one.rank) in wanted]
    for name in names:
        print(draw(name, [one for one in curves if one.name == name], make_console().width, is_colored=ink.is_on))


Jobs = Annotated[list[str], typer.Argument(metavar="JOB JOB…", help="Names of jobs, prefixes of them, or @last.")]


def compare(jobs: Jobs, as_json: AsJson = False) -> None:
    """Compare jobs: what differs in job file, code, environment and inputs, and what came of them."""
    client = connect()
    names = list(dict.fromkeys(find_job(client, job).name for job in jobs))
    if len(names) < 2:
        raise SpecError("a comparison is of two jobs or more", fix="For example: drumbeat compare JOB @last")
    compared = client.compare(*names)
    if as_json:
        print_json(compared)
    else:
        show(*render_comparison(compared))


MAX_PARAMETER = 200
"""Characters of a parameter's value that are shown."""
LOG_HINT = "It logs with mlflow.log_metric(...) or drumbeat.log(...)."


def render_metrics(logged: MetricsView, shown: Sequence[SeriesView]) -> Iterator[RenderableType]:
    """Yields the table of the shown series, a note on the others, and the parameters."""
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
    """Yields the results of an ended job: the last value of each metric, and its curve in one line."""
    lines = {one.name: sparkline(one) for one in curves}
    yield heading("Results")
    table = make_table("metric", ">last", ">step", ">lowest", ">highest", "curve")
    rows = [
        (one.name, format_value(one.last.value), one.last.step, _value_and_step(one.min)[0],
         _value_and_step(one.max)[0], lines.get(one.name, ""))
        for one in series
    ]  # fmt: skip
    yield fill_table(table, rows)


def render_comparison(compared: ComparisonView) -> Iterator[RenderableType]:
    """Yields the differences and the outcomes: one column for each job."""
    yield heading("What differs")
    if compared.differences:
        yield _compared(compared.jobs, compared.differences)
    else:
        yield cell("nothing: job file, code, environment and inputs are the same")
    yield heading("What came of it")
    yield _compared(compared.jobs, compared.outcomes)


def _series(one: SeriesView) -> tuple[object, ...]:
    return (
        one.name,
        format_value(one.last.value),
        one.last.step,
        *_value_and_step(one.min),
        *_value_and_step(one.max),
        one.rank if one.rank >= 0 else f"node {-1 - one.rank}",
        one.count,
    )


def _value_and_step(point: PointView | None) -> tuple[object, object]:
    return (format_value(point.value), point.step) if point else ("", "")


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
        return format_value(value)
    return "–" if value is None else str(value)


HEIGHT = 16
MAX_WIDTH = 110
COLORS = ("cyan", "yellow", "magenta", "green", "blue", "red")


def sparkline(curve: CurveView) -> str:
    """Returns a curve in one line: a bar for each point, in the order of steps, without NaN."""
    points = sorted((one.step, one.value) for one in curve.points if not isinstance(one.value, str))
    values = [value for _, value in points]
    return bars(values, max(values, default=0.0), min(values, default=0.0))


def draw(name: str, curves: Sequence[CurveView], width: int, *, is_colored: bool) -> str:
    """Returns a picture of one metric: value over step, one curve for each rank. Infinite values are left out."""
    import plotext

    plot: Any = plotext
    plot.clear_figure()
    plot.plotsize(min(width, MAX_WIDTH), HEIGHT)
    plot.theme("clear")
    plot.title(make_safe(name))
    plot.xlabel("step")
    left_out = 0
    for n, curve in enumerate(curves):
        points = sorted((one.step, one.value) for one in curve.points if not isinstance(one.value, str))
        left_out += len(curve.points) - len(points)
        steps, values = [step for step, _ in points], [value for _, value in points]
        label = f"rank {curve.rank}" if len(curves) > 1 or curve.rank else None
        options = {"color": COLORS[n % len(COLORS)]} if is_colored else {}
        plot.plot(steps, values, marker="braille", label=label, **options)
    picture = str(plot.build())
    if not is_colored:
        picture = plot.uncolorize(picture)
    lines = [line.rstrip() for line in picture.splitlines()]
    if left_out:
        lines.append(f"{left_out} of these points are infinite or no numbers and aren't drawn")
    return "\n".join(lines)


COLUMNS = ("name", "rank", "step", "value", "at")


def print_points(points: Iterable[dict[str, object]], *, is_csv: bool) -> None:
    """Prints points as they come, for there may be millions: as CSV with a header, or as a JSON list, a point a line.

    CSV leaves names as they are for a program, and spells out what they could do to a terminal.
    """
    if is_csv:
        import csv

        show = make_safe if sys.stdout.isatty() else str
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(COLUMNS)
        rows = ([to_wire(point[column]) for column in COLUMNS] for point in points)
        writer.writerows([show(one) if isinstance(one, str) else one for one in row] for row in rows)
        return
    before = "["
    for point in points:
        print(f"{before}\n  {json.dumps(to_wire(point))}", end="")
        before = ","
    print("\n]" if before == "," else "[]")
