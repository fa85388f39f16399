"""`drumbeat ledger`: where the wall time of jobs went, and what they held meanwhile."""

from __future__ import annotations

import csv
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from drumbeat.cli.terminal.age import parse_age
from drumbeat.cli.terminal.connect import connect
from drumbeat.cli.terminal.formatting import format_duration, format_hours
from drumbeat.cli.terminal.job_names import find_job
from drumbeat.cli.terminal.json_output import print_json
from drumbeat.cli.terminal.screen import cell, fitted, make_console, show
from drumbeat.model.api.ledger import LedgerGroup, LedgerRow, LedgerView, TimeClass
from drumbeat.model.errors import RefusedError

if TYPE_CHECKING:
    from rich.table import Table


Jobs = Annotated[
    list[str], typer.Argument(metavar="[JOB…]", help="Names of jobs, their beginnings, or @last; all jobs without any.")
]
By = Annotated[LedgerGroup, typer.Option("--by", help="What the rows are.")]
Since = Annotated[str, typer.Option("--since", metavar="AGE", help="Leave out the time before: 30d, 12h.")]
Until = Annotated[str | None, typer.Option("--until", metavar="AGE", help="Leave out the time after: 7d, 12h.")]
AsJson = Annotated[bool, typer.Option("--json", help="Everything as JSON, in seconds.")]
AsCsv = Annotated[bool, typer.Option("--csv", help="Everything as comma-separated values, in seconds and hours.")]


def ledger(
    jobs: Jobs = [],  # noqa: B006 - Typer's default
    by: By = LedgerGroup.JOB,
    since: Since = "30d",
    until: Until = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Show where the wall time of jobs went: each second is in one class, and the classes sum to the wall time.

    GPU-hours and slot-hours are what jobs held. Named jobs are shown whole; of a sweep or pipeline, its jobs are.
    """
    if as_json and as_csv:
        raise RefusedError("--json and --csv exclude one another", where="--csv", fix="Give one of them.")
    client = connect()
    now = datetime.now(UTC)
    oldest, newest = now - parse_age(since, "--since"), now - parse_age(until, "--until") if until else None
    names = [find_job(client, typed).name for typed in jobs]
    view = client.ledger(*names, by=by, since=oldest, until=newest)
    if as_json:
        print_json(view)
    elif as_csv:
        write_csv(view)
    elif not view.rows:
        print("no job has time in this ledger")
    else:
        show(ledger_table(view, make_console().width))


def write_csv(view: LedgerView) -> None:
    """Prints a line for each row, under a line of titles."""
    held = [f"{kind}_{one}_s" for kind in ("slot", "gpu") for one in TimeClass]
    titles = [str(view.by), "jobs", "gpu_hours", "slot_hours", "busy_gpu_hours", "cost", "currency", "wall_s"]
    writer = csv.writer(sys.stdout)
    writer.writerow([*titles, *(f"{one}_s" for one in TimeClass), *held])
    for row in view.rows:
        hours = [f"{one / 3600:.6f}" for one in (row.gpu_s, row.slot_s, row.busy_gpu_s)]
        cost = ["" if row.cost is None else row.cost, view.currency]
        seconds = [some.get(one, 0.0) for some in (row.seconds, row.slot_seconds, row.gpu_seconds) for one in TimeClass]
        writer.writerow([_as_text(row.name), row.jobs, *hours, *cost, row.wall_s, *seconds])


def _as_text(name: str) -> str:
    """Keeps a spreadsheet from taking a name for a formula."""
    return f"'{name}" if name.startswith(("=", "+", "-", "@", "\t", "\r")) else name


def ledger_table(view: LedgerView, width: int) -> Table:
    """Returns a row for each job, experiment, user or week, and their total; a column for each class that has time."""
    shown = [one for one in TimeClass if view.total.seconds.get(one, 0.0) > 0]
    held = _held_columns(view)
    titles = [str(view.by), *held, ">wall", *(f">{one}" for one in shown), "most of it"]
    rows = [_cells(row, held, shown) for row in view.rows]
    if len(rows) > 1:
        rows.append([cell("total", "bold"), *_cells(view.total, held, shown)[1:]])
    if view.by is not LedgerGroup.JOB:
        titles.insert(1, ">jobs")
        counts = [*(row.jobs for row in view.rows), view.total.jobs]
        for cells, count in zip(rows, counts, strict=False):
            cells.insert(1, count)
    return fitted(titles, rows, width, ("most of it",))


def _held_columns(view: LedgerView) -> list[str]:
    has = {">GPU h": view.total.gpu_s > 0, ">slot h": view.total.slot_s > 0, _cost(view): bool(view.total.cost)}
    return [title for title, is_there in has.items() if is_there]


def _cost(view: LedgerView) -> str:
    return f">{view.currency or 'cost'}"


def _cells(row: LedgerRow, held: list[str], shown: list[TimeClass]) -> list[object]:
    values = {">GPU h": format_hours(row.gpu_s), ">slot h": format_hours(row.slot_s)}
    amounts = [values.get(title, f"{row.cost or 0.0:,.2f}") for title in held]
    lengths = [_format(row.seconds.get(one, 0.0)) for one in shown]
    most = max(shown, key=row.share, default=TimeClass.TRAIN)
    return [row.name, *amounts, _format(row.wall_s), *lengths, f"{most} {row.share(most):.0%}"]


def _format(seconds: float) -> str:
    return format_duration(timedelta(seconds=seconds)) if seconds else ""
