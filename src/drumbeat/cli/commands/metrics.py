"""`metrics`: what a job has logged, as a table, as curves, or every point."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from drumbeat.cli.commands.jobs import Job
from drumbeat.cli.terminal.connect import connect
from drumbeat.protocol.errors import NotFoundError, SpecError
from drumbeat.protocol.metrics import SYSTEM

if TYPE_CHECKING:
    from drumbeat.client import Client
    from drumbeat.protocol.api.metrics import MetricsView, SeriesView

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
    from drumbeat.cli.terminal.job_names import find_job

    if as_json and as_csv:
        raise SpecError("--json and --csv exclude each other", where="--csv", fix="Give one of them.")
    client = connect()
    name = find_job(client, job).name
    logged = client.metrics(name, rank=rank)
    chosen = _chosen(logged, names or [])
    if as_json or as_csv:
        from drumbeat.cli.terminal.point_output import print_points

        print_points(_points(client, name, chosen), is_csv=as_csv)
    elif names:
        _print_curves(client, name, chosen if rank is not None else _main(chosen), rank)
    else:
        from drumbeat.cli.tables.metricview import render_metrics
        from drumbeat.cli.terminal.screen import show

        show(*render_metrics(logged, chosen if rank is not None else _main(chosen)))


def _chosen(logged: MetricsView, names: Sequence[str]) -> list[SeriesView]:
    """Returns the series with these names, or all. Raises NotFoundError for a name that wasn't logged."""
    known = list(dict.fromkeys(one.name for one in logged.series))
    for name in names:
        if name not in known:
            raise _not_logged(logged.job, name, known)
    return [one for one in logged.series if not names or one.name in names]


def _not_logged(job: str, name: str, known: Sequence[str]) -> NotFoundError:
    from difflib import get_close_matches

    close = get_close_matches(name, known, 1)
    fix = f"Did you mean `{close[0]}`?" if close else f"It has logged: {', '.join(known[:20]) or 'nothing'}."
    return NotFoundError(f"job {job} has not logged {name[:80]!r}", fix=fix)


def _main(series: Sequence[SeriesView]) -> list[SeriesView]:
    """Returns the series of rank 0, and those that only other ranks have; what they use of the machine comes last."""
    of_rank_0 = {one.name for one in series if one.rank == 0}
    main = [one for one in series if one.rank == 0 or (one.rank > 0 and one.name not in of_rank_0)]
    return sorted(main, key=lambda one: one.name.startswith(SYSTEM))


def _points(client: Client, job: str, series: Sequence[SeriesView]) -> Iterator[dict[str, object]]:
    for one in series:
        for point in client.points(job, one.name, rank=one.rank):
            yield {"name": one.name, "rank": one.rank, "step": point.step, "value": point.value, "at": point.at}


def _print_curves(client: Client, job: str, series: Sequence[SeriesView], rank: int | None) -> None:
    from drumbeat.cli.tables.curveview import draw
    from drumbeat.cli.terminal.screen import make_console
    from drumbeat.cli.terminal.styles import ink_for

    ink = ink_for(sys.stdout)
    wanted = {(one.name, one.rank) for one in series}
    names = list(dict.fromkeys(one.name for one in series))
    curves = [one for one in client.curves(job, names, rank=rank, max_points=400) if (one.name, one.rank) in wanted]
    for name in names:
        print(draw(name, [one for one in curves if one.name == name], make_console().width, is_colored=ink.is_on))
