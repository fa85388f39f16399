"""Commands about jobs that are there: list, show, cancel, wait, archive, restore."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from drumbeat.cli.terminal.connect import connect
from drumbeat.cli.terminal.failures import Exit
from drumbeat.cli.terminal.untrusted_text import make_safe
from drumbeat.protocol.errors import AwayError, UnreachableError
from drumbeat.protocol.metrics import SYSTEM
from drumbeat.protocol.states import JobKind, State

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import RenderableType

    from drumbeat.client import Client
    from drumbeat.protocol.api.jobs import JobView

STATES = f"List only jobs in this state: {', '.join(State)}."

Job = Annotated[str, typer.Argument(metavar="JOB", help="A job's name, a prefix of it, or @last for the newest job.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print everything as JSON.")]

MAX_RESULTS, RESULT_POINTS = 12, 40
"""Metrics of a job that has ended which `show` prints first, and the points of each one's curve."""


def list_jobs(
    state: Annotated[State | None, typer.Option("--state", metavar="STATE", help=STATES)] = None,
    experiment: Annotated[
        str | None, typer.Option("--experiment", metavar="NAME", help="List only jobs of this experiment.")
    ] = None,
    all_: Annotated[bool, typer.Option("--all", "-a", help="Include archived jobs.")] = False,
    parent: Annotated[
        str,
        typer.Option("--parent", metavar="JOB", help="List the trials of this sweep or the steps of this pipeline."),
    ] = "",
    person: Annotated[
        str | None, typer.Option("--person", metavar="NAME", help="List only jobs of this person.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, help="Maximum number of jobs.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List jobs, newest first. Trials and steps are listed with --parent only."""
    from drumbeat.cli.terminal.job_names import find_job

    client = connect()
    parent = parent and find_job(client, parent).name
    jobs = client.list(state=state, experiment=experiment, archived=all_, limit=limit, parent=parent, person=person)
    if as_json:
        from drumbeat.cli.terminal.json_output import print_json

        print_json(jobs)
    elif not jobs:
        print("no jobs")
    else:
        from drumbeat.cli.tables.jobview import job_table
        from drumbeat.cli.terminal.screen import make_console, show

        show(job_table(jobs, datetime.now(UTC), make_console().width))


def show_job(job: Job, as_json: AsJson = False) -> None:
    """Show a job in full: its story with times, its nodes and ranks, or its steps, and why it ended."""
    from drumbeat.cli.terminal.job_names import find_job

    client = connect()
    job_view = find_job(client, job)
    if as_json:
        from drumbeat.cli.terminal.json_output import print_json

        print_json(job_view)
    else:
        from drumbeat.cli.tables.jobview import render_job
        from drumbeat.cli.terminal.screen import show

        show(*render_job(job_view, _graph(client, job_view), _results(client, job_view)))


def _results(client: Client, job: JobView) -> Iterable[RenderableType]:
    """The last values and curves of a job that has ended; nothing for another one."""
    if not job.has_ended or not job.primary:
        return ()
    from drumbeat.cli.tables.metricview import render_results

    series = [one for one in client.metrics(job.name, rank=0).series if not one.name.startswith(SYSTEM)]
    shown = series[:MAX_RESULTS]
    return render_results(shown, client.curves(job.name, [one.name for one in shown], rank=0, max_points=RESULT_POINTS))


def _graph(client: Client, job: JobView) -> Iterable[RenderableType]:
    """The graph of a pipeline; nothing for another job."""
    if job.type != JobKind.PIPELINE:
        return ()
    from drumbeat.cli.tables.pipelineview import render_pipeline
    from drumbeat.cli.terminal.screen import make_console

    return render_pipeline(client.pipeline(job.name), make_console().width)


def cancel(
    job: Job,
    wait_: Annotated[bool, typer.Option("--wait", "-w", help="Wait until the job ends.")] = False,
    discard: Annotated[bool, typer.Option("--discard", help="Give up outputs that are not stored yet.")] = False,
) -> None:
    """Stop a job: send SIGTERM to every rank, and SIGKILL after the job's grace time."""
    from drumbeat.cli.terminal.job_names import find_job

    client = connect()
    name = find_job(client, job).name
    canceled = client.cancel(name, discard=discard)
    print(f"{name}: {canceled.state}; {make_safe(canceled.progress)}")
    if wait_:
        ended = client.wait(name)
        print(_say_end(ended) if ended else f"{name}: not ended")


def wait(
    job: Job,
    timeout: Annotated[
        float | None, typer.Option("--timeout", metavar="S", min=0, help="Give up after this many seconds.")
    ] = None,
) -> None:
    """Wait until a job ends, and exit with its exit code, or with 3 when the timeout expires first."""
    from drumbeat.cli.follow.summary import exit_code_of
    from drumbeat.cli.terminal.job_names import find_job

    client = connect()
    job_view = find_job(client, job)
    ended = client.wait(job_view.name, timeout)
    if ended is None:
        print(f"{job_view.name}: isn't over after {timeout:g} s{_say_doing(client, job_view.name)}")
        raise typer.Exit(Exit.TIMEOUT)
    print(_say_end(ended))
    raise typer.Exit(exit_code_of(ended))


def _say_doing(client: Client, name: str) -> str:
    try:
        return f": {make_safe(client.get(name).progress)}"
    except (UnreachableError, AwayError) as error:
        return f", as far as is known: {make_safe(error.what)}"


def _say_end(ended: JobView) -> str:
    return make_safe("; ".join([f"{ended.name}: {ended.state}", *(one.notice for one in ended.outputs if one.notice)]))


def archive(job: Job) -> None:
    """Hide an ended job from lists, without deleting anything."""
    _set_archived(job, is_archived=True)


def restore(job: Job) -> None:
    """Show an archived job in lists again."""
    _set_archived(job, is_archived=False)


def _set_archived(job: str, *, is_archived: bool) -> None:
    from drumbeat.cli.terminal.job_names import find_job

    client = connect()
    name = find_job(client, job).name
    if is_archived:
        client.archive(name)
    else:
        client.restore(name)
    print(f"{name}: {'archived' if is_archived else 'restored'}")
