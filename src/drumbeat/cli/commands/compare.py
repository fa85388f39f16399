"""`compare`: what differs between jobs, and what came of them."""

from __future__ import annotations

from typing import Annotated

import typer

from drumbeat.cli.commands.jobs import AsJson
from drumbeat.cli.terminal.connect import connect
from drumbeat.protocol.errors import SpecError

Jobs = Annotated[list[str], typer.Argument(metavar="JOB JOB…", help="Names of jobs, prefixes of them, or @last.")]


def compare(jobs: Jobs, as_json: AsJson = False) -> None:
    """Compare jobs: what differs in job file, code, environment and inputs, and what came of them."""
    from drumbeat.cli.terminal.job_names import find_job

    client = connect()
    names = list(dict.fromkeys(find_job(client, job).name for job in jobs))
    if len(names) < 2:
        raise SpecError("a comparison is of two jobs or more", fix="For example: drumbeat compare JOB @last")
    compared = client.compare(*names)
    if as_json:
        from drumbeat.cli.terminal.json_output import print_json

        print_json(compared)
    else:
        from drumbeat.cli.tables.metricview import render_comparison
        from drumbeat.cli.terminal.screen import show

        show(*render_comparison(compared))
