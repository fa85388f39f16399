"""Commands about jobs: list, show, cancel, wait, archive, restore."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from drumbeat.cli.commands.job_tables import format_end_of, format_steps, job_table, render_job, render_wait
from drumbeat.cli.commands.metrics import render_results
from drumbeat.cli.commands.run_tables import COLUMNS_HELP, GROUP_BY_HELP, SORT_HELP, WHERE_HELP, list_runs, quoted
from drumbeat.cli.terminal.connect import connect
from drumbeat.cli.terminal.failures import Exit
from drumbeat.cli.terminal.help import AsJson, Job
from drumbeat.cli.terminal.job_names import find_job
from drumbeat.cli.terminal.json_output import print_json
from drumbeat.cli.terminal.screen import (
    heading,
    make_console,
    pairs,
    show,
)
from drumbeat.cli.terminal.untrusted_text import make_safe
from drumbeat.model.errors import AwayError, NotFoundError, UnreachableError
from drumbeat.model.metrics import SYSTEM
from drumbeat.model.states import JobKind, Reason, State

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rich.console import RenderableType

    from drumbeat.client import Client
    from drumbeat.model.api.jobs import JobView
    from drumbeat.model.api.outlooks import StartView


STATES = f"List only jobs in this state: {', '.join(State)}."


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
    person: Annotated[str | None, typer.Option("--person", metavar="NAME", help="List only jobs of this user.")] = None,
    reason: Annotated[
        Reason | None, typer.Option("--reason", metavar="REASON", help="List only jobs of this reason: `hanging`, say.")
    ] = None,
    columns: Annotated[str, typer.Option("--columns", metavar="FIELDS", help=COLUMNS_HELP)] = "",
    where: Annotated[str, typer.Option("--where", metavar="FILTER", help=WHERE_HELP)] = "",
    sort: Annotated[str, typer.Option("--sort", metavar="FIELDS", help=SORT_HELP)] = "",
    group_by: Annotated[str, typer.Option("--group-by", metavar="FIELDS", help=GROUP_BY_HELP)] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, help="Maximum number of jobs.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List jobs, newest first. Trials and steps are listed with --parent only.

    With --columns, --where, --sort or --group-by, list them as a table of runs, with the values of any of their fields.
    """
    client = connect()
    parent = parent and find_job(client, parent).name
    if columns or where or sort or group_by:
        also = {"state": state, "person": person, "reason": reason}
        where = " and ".join(
            [*(f"{field} = {quoted(value)}" for field, value in also.items() if value), *filter(None, [where])]
        )
        runs = client.runs(
            columns=columns,
            where=where,
            sort=sort,
            group_by=group_by,
            experiment=experiment,
            parent=parent,
            archived=all_,
            limit=limit,
        )
        list_runs(runs, group_by, as_json=as_json)
        return
    jobs = client.list(
        state=state, experiment=experiment, archived=all_, limit=limit, parent=parent, person=person, reason=reason
    )
    if as_json:
        print_json(jobs)
    elif not jobs:
        print("no jobs")
    else:
        show(job_table(jobs, datetime.now(UTC), make_console().width, _starts(client, jobs)))


def show_job(job: Job, as_json: AsJson = False) -> None:
    """Show a job in full: its story with times, its nodes and ranks, or its steps, and why it ended."""
    client = connect()
    job_view = find_job(client, job)
    if as_json:
        print_json(job_view)
    else:
        parts = [*_outlook(client, job_view), *_graph(client, job_view)]
        show(*render_job(job_view, parts, _results(client, job_view)))


def _starts(client: Client, jobs: Sequence[JobView]) -> Mapping[str, StartView]:
    """When those of these jobs that wait may start."""
    if not any(job.state == State.QUEUED for job in jobs):
        return {}
    with contextlib.suppress(NotFoundError):  # The server is older.
        return {one.job: one for one in client.starts()}
    return {}


def _outlook(client: Client, job: JobView) -> Iterable[RenderableType]:
    """When a job that waits may start and who holds the slots, or when one that runs ends; nothing for another one."""
    if job.state not in (State.QUEUED, State.RUNNING):
        return
    try:
        outlook = client.outlook(job.name)
    except NotFoundError:  # The server is older, or the job was deleted.
        return
    if outlook.start:
        yield from render_wait(outlook, outlook.start, datetime.now(UTC))
    elif outlook.own:
        yield heading("Its end")
        own, now = outlook.own, datetime.now(UTC)
        yield pairs([("step", format_steps(own)), ("end", format_end_of(own, now))])


def _results(client: Client, job: JobView) -> Iterable[RenderableType]:
    """The last values and curves of a job that has ended; nothing for another one."""
    if not job.has_ended or not job.primary:
        return ()
    series = [one for one in client.metrics(job.name, rank=0).series if not one.name.startswith(SYSTEM)]
    shown = series[:MAX_RESULTS]
    return render_results(shown, client.curves(job.name, [one.name for one in shown], rank=0, max_points=RESULT_POINTS))


def _graph(client: Client, job: JobView) -> Iterable[RenderableType]:
    """The graph of a pipeline; nothing for another job."""
    if job.type != JobKind.PIPELINE:
        return ()
    from drumbeat.cli.commands.plan_tables import render_pipeline

    return render_pipeline(client.pipeline(job.name), make_console().width)


def cancel(
    job: Job,
    wait_: Annotated[bool, typer.Option("--wait", "-w", help="Wait until the job ends.")] = False,
    discard: Annotated[bool, typer.Option("--discard", help="Give up outputs that are not stored yet.")] = False,
) -> None:
    """Stop a job: send SIGTERM to every rank, and SIGKILL after the job's grace time."""
    client = connect()
    name = find_job(client, job).name
    canceled = client.cancel(name, discard=discard)
    print(f"{name}: {canceled.state}; {make_safe(canceled.progress)}")
    if wait_:
        ended = client.wait(name)
        print(_format_end(ended) if ended else f"{name}: not ended")


def wait(
    job: Job,
    timeout: Annotated[
        float | None, typer.Option("--timeout", metavar="S", min=0, help="Give up after this many seconds.")
    ] = None,
) -> None:
    """Wait until a job ends, and exit with its exit code, or with 3 when the timeout expires first."""
    from drumbeat.cli.follow.summary import exit_code_for

    client = connect()
    job_view = find_job(client, job)
    ended = client.wait(job_view.name, timeout)
    if ended is None:
        print(f"{job_view.name}: isn't over after {timeout:g} s{_format_activity(client, job_view.name)}")
        raise typer.Exit(Exit.TIMEOUT)
    print(_format_end(ended))
    raise typer.Exit(exit_code_for(ended))


def _format_activity(client: Client, name: str) -> str:
    try:
        return f": {make_safe(client.get(name).progress)}"
    except (UnreachableError, AwayError) as error:
        return f", as far as is known: {make_safe(error.what)}"


def _format_end(ended: JobView) -> str:
    return make_safe("; ".join([f"{ended.name}: {ended.state}", *(one.notice for one in ended.outputs if one.notice)]))


def archive(job: Job) -> None:
    """Hide an ended job from lists, without deleting anything."""
    _set_archived(job, is_archived=True)


def restore(job: Job) -> None:
    """Show an archived job in lists again."""
    _set_archived(job, is_archived=False)


def _set_archived(job: str, *, is_archived: bool) -> None:
    client = connect()
    name = find_job(client, job).name
    if is_archived:
        client.archive(name)
    else:
        client.restore(name)
    print(f"{name}: {'archived' if is_archived else 'restored'}")
