"""`drumbeat sweep`: a sweep's trials, and the best of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from drumbeat.cli.terminal.connect import connect
from drumbeat.cli.terminal.help import add_command

if TYPE_CHECKING:
    from drumbeat.client import Client
    from drumbeat.protocol.api.sweeps import SweepView

app = typer.Typer(help="Show sweeps: their trials, and the best of them.", no_args_is_help=True)

Sweep = Annotated[
    str, typer.Argument(metavar="SWEEP", help="A sweep's name, a prefix of it, or @last for the newest job.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print everything as JSON.")]


def show_sweep(sweep: Sweep, as_json: AsJson = False) -> None:
    """Show a sweep: how far it is, its best trial, and a row for each trial."""
    sweep_view = _find(connect(), sweep)
    if as_json:
        _print(sweep_view)
        return
    from drumbeat.cli.tables.sweepview import render_sweep
    from drumbeat.cli.terminal.screen import make_console, show

    show(*render_sweep(sweep_view, make_console().width))


def trials(sweep: Sweep, as_json: AsJson = False) -> None:
    """List the trials of a sweep, with their parameters and the primary metric."""
    sweep_view = _find(connect(), sweep)
    if as_json:
        _print(sweep_view.trials)
        return
    from drumbeat.cli.tables.sweepview import trial_table
    from drumbeat.cli.terminal.screen import make_console, show

    show(trial_table(sweep_view, make_console().width))


def best(sweep: Sweep, as_json: AsJson = False) -> None:
    """Show the best trial of a sweep by its primary metric, with its parameters."""
    client = connect()
    sweep_view = _find(client, sweep)
    trial = sweep_view.best_trial or client.best(sweep_view.name)
    if as_json:
        _print(trial)
        return
    from drumbeat.cli.tables.sweepview import render_trial
    from drumbeat.cli.terminal.screen import show

    show(render_trial(sweep_view, trial))


def _find(client: Client, typed: str) -> SweepView:
    from drumbeat.cli.terminal.job_names import find_job

    return client.sweep(find_job(client, typed).name)


def _print(value: object) -> None:
    from drumbeat.cli.terminal.json_output import print_json

    print_json(value)


add_command(app, "show", show_sweep, "drumbeat sweep show @last")
add_command(app, "trials", trials, "drumbeat sweep trials @last --json")
add_command(app, "best", best, "drumbeat sweep best @last")
