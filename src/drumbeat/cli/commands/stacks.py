"""`drumbeat stacks`: what each rank of a running job does now."""

from __future__ import annotations

from typing import Annotated

import typer

from drumbeat.cli.terminal.connect import connect

JobName = Annotated[str, typer.Argument(metavar="JOB", help="Name of a job, its beginning, or @last.")]
Rank = Annotated[int | None, typer.Option("--rank", min=0, help="Only this rank.")]
Native = Annotated[
    bool, typer.Option("--native", help="Frames of compiled code too; each rank stands still for a moment.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Everything as JSON.")]


def stacks(job: JobName, rank: Rank = None, native: Native = False, as_json: AsJson = False) -> None:
    """Print the stack of every rank of a running job, and what each rank does.

    Ranks run on meanwhile. Each node reads the stacks by py-spy, which it gets from the server where it has none.
    """
    from drumbeat.cli.terminal.job_names import find_job

    client = connect()
    nodes = client.stacks(find_job(client, job).name, rank, native=native)
    if as_json:
        from drumbeat.cli.terminal.json_output import print_json

        print_json(nodes)
        return
    from drumbeat.core.diagnosis.hangs.stack_report import text

    print(text(nodes), end="")
