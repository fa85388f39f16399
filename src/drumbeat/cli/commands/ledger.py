"""`drumbeat ledger`: where the wall time of jobs went."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from drumbeat.cli.terminal.age import parse_age
from drumbeat.cli.terminal.connect import connect
from drumbeat.cli.terminal.formatting import format_duration
from drumbeat.cli.terminal.job_names import find_job
from drumbeat.cli.terminal.json_output import print_json
from drumbeat.cli.terminal.screen import cell, fitted, make_console, show
from drumbeat.model.api.ledger import LedgerGroup, LedgerRow, LedgerView, TimeClass

if TYPE_CHECKING:
    from rich.table import Table


Jobs = Annotated[
    list[str], typer.Argument(metavar="[JOB…]", help="Names of jobs, their beginnings, or @last; all jobs without any.")
]
By = Annotated[LedgerGroup, typer.Option("--by", help="What the rows are.")]
Since = Annotated[
    str, typer.Option("--since", metavar="AGE", help="Leave out jobs that ended before this long ago: 30d, 12h.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Everything as JSON, in seconds.")]


def ledger(jobs: Jobs = [], by: By = LedgerGroup.JOB, since: Since = "30d", as_json: AsJson = False) -> None:  # noqa: B006 - Typer's default
    """Show where the wall time of jobs went: each second is in one class, and the classes sum to the wall time.

    Named jobs are shown whatever their age; of a sweep or pipeline, its jobs are.
    """
    client = connect()
    oldest = datetime.now(UTC) - parse_age(since, "--since")
    names = [find_job(client, typed).name for typed in jobs]
    view = client.ledger(*names, by=by, since=oldest)
    if as_json:
        print_json(view)
    elif not view.rows:
        print("no job has time in this ledger")
    else:
        show(ledger_table(view, make_console().width))


def ledger_table(view: LedgerView, width: int) -> Table:
    """Returns a row for each job, experiment, user or week, and their total; a column for each class that has time."""
    shown = [one for one in TimeClass if view.total.seconds.get(one, 0.0) > 0]
    titles = [str(view.by), ">wall", *(f">{one}" for one in shown), "most of it"]
    rows = [_cells(row, shown) for row in view.rows]
    if len(rows) > 1:
        rows.append([cell("total", "bold"), *_cells(view.total, shown)[1:]])
    if view.by is not LedgerGroup.JOB:
        titles.insert(1, ">jobs")
        counts = [*(row.jobs for row in view.rows), view.total.jobs]
        for cells, count in zip(rows, counts, strict=False):
            cells.insert(1, count)
    return fitted(titles, rows, width, ("most of it",))


def _cells(row: LedgerRow, shown: list[TimeClass]) -> list[object]:
    lengths = [_format(row.seconds.get(one, 0.0)) for one in shown]
    most = max(shown, key=row.share, default=TimeClass.TRAIN)
    return [row.name, _format(row.wall_s), *lengths, f"{most} {row.share(most):.0%}"]


def _format(seconds: float) -> str:
    return format_duration(timedelta(seconds=seconds)) if seconds else ""
