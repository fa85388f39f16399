"""`sweep`: shows a sweep's trials, and the best of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from drumbeat.cli.terminal.connect import connect
from drumbeat.cli.terminal.formatting import format_parameter
from drumbeat.cli.terminal.help import AsJson, add_command
from drumbeat.cli.terminal.job_names import find_job
from drumbeat.cli.terminal.json_output import print_json
from drumbeat.cli.terminal.screen import fitted, heading, make_console, pairs, show, state_cell
from drumbeat.core.sweeps.metric_order import sort_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType
    from rich.table import Table

    from drumbeat.client import Client
    from drumbeat.model.api.sweeps import SweepView, TrialView


app = typer.Typer(help="Show sweeps: their trials, and the best of them.", no_args_is_help=True)

Sweep = Annotated[
    str, typer.Argument(metavar="SWEEP", help="A sweep's name, a prefix of it, or @last for the newest job.")
]


def show_sweep(sweep: Sweep, as_json: AsJson = False) -> None:
    """Show a sweep: how far it is, its best trial, and a row for each trial."""
    sweep_view = _find(connect(), sweep)
    if as_json:
        print_json(sweep_view)
        return
    show(*render_sweep(sweep_view, make_console().width))


def trials(sweep: Sweep, as_json: AsJson = False) -> None:
    """List the trials of a sweep, with their parameters and the primary metric."""
    sweep_view = _find(connect(), sweep)
    if as_json:
        print_json(sweep_view.trials)
        return
    show(trial_table(sweep_view, make_console().width))


def best(sweep: Sweep, as_json: AsJson = False) -> None:
    """Show the best trial of a sweep by its primary metric, with its parameters."""
    client = connect()
    sweep_view = _find(client, sweep)
    trial = sweep_view.best_trial or client.best(sweep_view.name)
    if as_json:
        print_json(trial)
        return
    show(render_trial(sweep_view, trial))


def _find(client: Client, typed: str) -> SweepView:
    return client.sweep(find_job(client, typed).name)


def render_sweep(sweep: SweepView, width: int) -> Iterator[RenderableType]:
    """Yields the sweep's facts, its best trial, and a row for each trial."""
    yield pairs(
        [
            ("sweep", sweep.name),
            ("state", state_cell(sweep.state)),
            ("why", sweep.sentence),
            ("objective", f"{sweep.goal} {sweep.primary_metric}"),
            ("trials", f"{len(sweep.trials)} of at most {sweep.max_total_trials}"),
            ("at once", f"at most {sweep.max_concurrent_trials}"),
            ("best", sweep.best_trial.job if sweep.best_trial else "none yet"),
        ]
    )
    if sweep.trials:
        yield heading("Trials")
        yield trial_table(sweep, width)


def trial_table(sweep: SweepView, width: int) -> Table:
    """Returns a row for each trial, with a column for each parameter."""
    names = list(dict.fromkeys(name for trial in sweep.trials for name in trial.parameters))
    titles = ("trial", "state", f">{sweep.primary_metric}", ">reports", *names, "why")
    rows = [
        (
            trial.job,
            state_cell(trial.state or "submitting").append(" best" if trial.number == sweep.best else "", "bold"),
            format_value(trial.value),
            trial.reports or "",
            *(format_parameter(trial.parameters.get(name)) for name in names),
            trial.sentence,
        )
        for trial in sweep.trials
    ]
    return fitted(titles, rows, width, ("why", ">reports"))


def best_first(sweep: SweepView, limit: int) -> SweepView:
    """Returns the sweep with at most so many trials: the best ones, the best first."""
    ranked = sorted(sweep.trials, key=lambda one: sort_key(one.value, sweep.goal))
    return replace(sweep, trials=tuple(ranked[:limit]))


def render_trial(sweep: SweepView, trial: TrialView) -> RenderableType:
    """Renders one trial with its parameters."""
    return pairs(
        [
            ("trial", trial.job),
            ("state", state_cell(trial.state or "submitting")),
            (sweep.primary_metric, format_value(trial.value)),
            *((name, format_parameter(value)) for name, value in trial.parameters.items()),
        ]
    )


def format_value(value: float | None) -> str:
    """Returns a metric's value with six significant digits."""
    return "" if value is None else f"{value:.6g}"


add_command(app, "show", show_sweep, "drumbeat sweep show @last")
add_command(app, "trials", trials, "drumbeat sweep trials @last --json")
add_command(app, "best", best, "drumbeat sweep best @last")
