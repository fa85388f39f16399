"""`top`: shows active jobs, live."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from drumbeat.cli.terminal.connect import connect
from drumbeat.cli.terminal.formatting import format_duration, format_size
from drumbeat.cli.terminal.screen import cell, fitted, make_console, show, state_cell
from drumbeat.model.api.jobs import JobView
from drumbeat.model.errors import NotFoundError
from drumbeat.model.states import TERMINAL

if TYPE_CHECKING:
    from rich.table import Table

    from drumbeat.client import Client

REFRESH_S = 1.0
MOST = 30
"""Jobs that are shown."""


@dataclass(frozen=True)
class Row:
    """A job, the bytes of its logs, and how fast they grow."""

    job: JobView
    log_bytes: int
    rate: float


@dataclass(frozen=True)
class Sample:
    """The jobs at one moment of a monotonic clock."""

    rows: tuple[Row, ...]
    at: float


def top(
    once: Annotated[bool, typer.Option("--once", help="Print the table once and exit.")] = False,
) -> None:
    """Watch running and recently ended jobs: state, ranks, log rate. Press Ctrl-C to quit."""
    client = connect()
    first = take_sample(client, None, time.monotonic())
    if once:
        show(render_top(first, datetime.now(UTC), make_console().width))
        return
    from rich.live import Live

    console = make_console()
    with Live(render_top(first, datetime.now(UTC), console.width), console=console, auto_refresh=False) as live:
        try:
            while True:
                time.sleep(REFRESH_S)
                first = take_sample(client, first, time.monotonic())
                live.update(render_top(first, datetime.now(UTC), console.width), refresh=True)
        except KeyboardInterrupt:
            return


def take_sample(client: Client, before: Sample | None, now: float) -> Sample:
    """Takes a sample; rates are counted from the sample before."""
    jobs = _jobs_to_show(client)
    earlier = {row.job.name: row for row in before.rows} if before else {}
    since_s = now - before.at if before else 0.0
    return Sample(tuple(_row(client, job, earlier.get(job.name), since_s) for job in jobs), now)


def _jobs_to_show(client: Client) -> list[JobView]:
    """Returns the unfinished jobs, however old, then the newest of the ended ones."""
    newest = client.list(limit=MOST)
    names = {job.name for job in newest}
    older = [name for name in client.status().unfinished if name not in names]
    room = MOST - sum(not job.has_ended for job in newest)
    return sorted([*newest, *map(client.get, older[:room])], key=lambda job: job.has_ended)[:MOST]


def _row(client: Client, job: JobView, earlier: Row | None, since_s: float) -> Row:
    if job.state in TERMINAL:
        return Row(job, earlier.log_bytes if earlier else 0, 0.0)
    size = _log_bytes(client, job.name)
    return Row(job, size, max(size - earlier.log_bytes, 0) / since_s if earlier and since_s else 0.0)


def _log_bytes(client: Client, name: str) -> int:
    try:
        return sum(file.size for file in client.files(name) if file.path.startswith("logs/"))
    except NotFoundError:
        return 0


COLUMNS = ("job", "state", ">ranks", ">ended", ">for", ">log", ">log/s", "why")
DROPPED = (">log", ">ended", ">ranks", ">for", ">log/s", "why", "state")
"""Columns that a narrow terminal leaves out, the first one first."""


def render_top(sample: Sample, now: datetime, width: int) -> Table:
    """Returns the table. width: of the terminal."""
    rows = [
        (
            row.job.name,
            state_cell(row.job.state),
            row.job.world_size,
            sum(len(node.exits) for node in row.job.nodes),
            format_duration((row.job.ended_at or now) - row.job.submitted_at),
            format_size(row.log_bytes) if row.log_bytes else "",
            cell(f"{format_size(row.rate)}/s", "cyan") if row.rate else "",
            row.job.progress,
        )
        for row in sample.rows
    ]
    return fitted(COLUMNS, rows, width, DROPPED)
