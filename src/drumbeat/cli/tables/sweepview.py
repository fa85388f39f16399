"""What `sweep show`, `sweep trials` and `sweep best` print."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from drumbeat.cli.terminal.formatting import say_parameter
from drumbeat.cli.terminal.screen import fitted, heading, pairs, state_cell
from drumbeat.core.sweeping.metric_order import sort_key
from drumbeat.protocol.api.sweeps import SweepView, TrialView

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table


def render_sweep(sweep: SweepView, width: int) -> Iterator[RenderableType]:
    """The sweep's facts, its best trial, and a row for each trial."""
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
    """A row for each trial, with a column for each parameter."""
    names = list(dict.fromkeys(name for trial in sweep.trials for name in trial.parameters))
    titles = ("trial", "state", f">{sweep.primary_metric}", ">reports", *names, "why")
    rows = [
        (
            trial.job,
            state_cell(trial.state or "submitting").append(" best" if trial.number == sweep.best else "", "bold"),
            say_value(trial.value),
            trial.reports or "",
            *(say_parameter(trial.parameters.get(name)) for name in names),
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
    """One trial with its parameters."""
    return pairs(
        [
            ("trial", trial.job),
            ("state", state_cell(trial.state or "submitting")),
            (sweep.primary_metric, say_value(trial.value)),
            *((name, say_parameter(value)) for name, value in trial.parameters.items()),
        ]
    )


def say_value(value: float | None) -> str:
    """Returns a metric's value with six significant digits."""
    return "" if value is None else f"{value:.6g}"
