"""`rehearse`: tests whether a job hit by faults ends like the unbroken one, and what to change in its script."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drumbeat.cli.commands.run import File, Sets
from drumbeat.cli.follow.interrupts import SIGNAL_EXIT, Left, leave, signals_to
from drumbeat.cli.job_options.file_or_command import choose
from drumbeat.cli.job_options.options import JobOptions
from drumbeat.cli.terminal.connect import connect
from drumbeat.cli.terminal.failures import Exit
from drumbeat.cli.terminal.json_output import print_json
from drumbeat.cli.terminal.screen import cell, fill_table, heading, make_table, show
from drumbeat.model.errors import DrumbeatError, SpecError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from drumbeat.client import Client
    from drumbeat.rehearsal.preparation import RehearsalOptions
    from drumbeat.rehearsal.report import RehearsalReport


def rehearse(
    file: File = None,
    faults: Annotated[
        str,
        typer.Option(
            metavar="FAULT,…",
            help="kill, stop, agent, keeper, cut (netlab), fill-disk (root, local). By default those that the compute "
            "allows, without fill-disk.",
        ),
    ] = "",
    runs: Annotated[int, typer.Option(help="Runs with a fault; the faults take turns.")] = 5,
    nodes: Annotated[int | None, typer.Option("--nodes", metavar="N", help="Nodes, in place of the file's.")] = None,
    procs: Annotated[
        int | None, typer.Option("--procs", metavar="P", help="Ranks on each node, in place of the file's.")
    ] = None,
    sets: Sets = None,
    seed: Annotated[int, typer.Option(help="Draws moments and targets; the same seed draws the same ones.")] = 1,
    lasts: Annotated[
        float, typer.Option(metavar="SECONDS", help="How long stop, cut and fill-disk last, unless the ranks restart.")
    ] = 10.0,
    to: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder of the report; rehearsals/NAME by default.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Run a job twice unbroken and then with faults, and report whether each run ends as the unbroken one, bit for bit.

    Faults hit at random moments after the first checkpoint (else after the first step). The report says what each one
    cost, and what to change in the script, with the line. Make the job small: --set inputs.epochs=1. Exits with 1 if a
    run differs.

    The jobs are ordinary ones with the tag `rehearsal`. Only processes of these jobs are hit, on this machine: the
    compute is `local` or a netlab.
    """
    from drumbeat.rehearsal.preparation import RehearsalOptions

    options = RehearsalOptions(faults, runs, nodes, procs, seed, lasts)
    client = connect()
    report = _rehearse(client, file, tuple(sets or ()), options, is_quiet=as_json)
    folder = to or Path("rehearsals") / report.tag
    is_published = _keep(report, folder, client)
    if as_json:
        print_json(report.as_json())
    else:
        from drumbeat.rehearsal.report_files import PAGE, REPORT

        show(*render_rehearsal(report))
        shown = f"; on the web page: job {report.unbroken[0].job}" if is_published else ""
        print(f"\nwrote {folder / REPORT}, {folder / PAGE}{shown}")
    if not report.is_passed:
        raise typer.Exit(Exit.FAILED)


def _rehearse(
    client: Client, file: Path | None, sets: tuple[str, ...], options: RehearsalOptions, *, is_quiet: bool
) -> RehearsalReport:
    """Runs the rehearsal; a user who leaves cancels the job that runs. Raises what `prepare` and `run` do."""
    from drumbeat.client.discovery import locate
    from drumbeat.rehearsal.preparation import prepare
    from drumbeat.rehearsal.rehearsal import Rehearsal

    chosen = choose(file, None, JobOptions(), sets).job
    if not isinstance(chosen, Path):
        raise SpecError(
            "a rehearsal needs a job file", fix="Write one: drumbeat run --write job.yml -- python train.py"
        )
    order = prepare(client, locate(None, None, None, os.environ), chosen, sets, options)
    print(*order.notes, sep="\n", end="\n" if order.notes else "", file=sys.stderr)
    try:
        with signals_to(leave):
            return Rehearsal(client, order, (lambda _: None) if is_quiet else _print).run()
    except Left as left:
        print(f"left; the job that was running is canceled. Its jobs: drumbeat list, tag {order.tag}", file=sys.stderr)
        raise typer.Exit(SIGNAL_EXIT + left.number) from None


def _print(line: str) -> None:
    print(line, flush=True)


def _keep(report: RehearsalReport, folder: Path, client: Client) -> bool:
    """Writes the report as files, and with its first job on the server; returns whether the server has taken it."""
    from drumbeat.rehearsal.report_files import publish, write_files

    write_files(report, folder)
    try:
        publish(report, client)
    except DrumbeatError as error:
        print(f"the report is not on the server: {error}", file=sys.stderr)
        return False
    return True


_RIGHT = ("at step", "resumed at", "lost steps", "next step", "extra", "restarts")


def render_rehearsal(report: RehearsalReport) -> Iterator[RenderableType]:
    """Yields the verdict, the observations, a row for each run, and what to change in the script."""
    from drumbeat.rehearsal.report_files import COLUMNS, cells, describe

    yield cell(f"\n{describe(report)}")
    yield fill_table(
        make_table(*(f">{name}" if name in _RIGHT else name for name in COLUMNS)), [cells(run) for run in report.runs]
    )
    yield cell(f"\n{report.verdict}", "green" if report.is_passed else "red")
    for observation in report.observations:
        yield cell(f"  {observation.sentence}")
    if report.unjudged:
        yield cell(f"Not judged, since they differ between the unbroken runs: {', '.join(report.unjudged)}.")
    if report.hints:
        yield heading("What to change in the script")
    for hint in report.hints:
        yield cell(f"  {hint.where}  {hint.what}", "" if hint.is_observed else "dim")
        yield cell(f"      → {hint.fix}", "" if hint.is_observed else "dim")
