"""`drumbeat ledger`: where the wall time of jobs went."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from drumbeat.cli.terminal.age import parse_age
from drumbeat.cli.terminal.connect import connect
from drumbeat.protocol.api.ledger import LedgerGroup

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
    names = [_find(typed) for typed in jobs]
    view = client.ledger(*names, by=by, since=oldest)
    if as_json:
        from drumbeat.cli.terminal.json_output import print_json

        print_json(view)
    elif not view.rows:
        print("no job has time in this ledger")
    else:
        from drumbeat.cli.tables.ledgerview import ledger_table
        from drumbeat.cli.terminal.screen import make_console, show

        show(ledger_table(view, make_console().width))


def _find(typed: str) -> str:
    from drumbeat.cli.terminal.job_names import find_job

    return find_job(connect(), typed).name
