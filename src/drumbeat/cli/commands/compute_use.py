"""`compute use` and `compute price`: what jobs held of computes over time, and what an hour of that costs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from drumbeat.cli.commands.compute_jobs import Name
from drumbeat.cli.terminal.age import parse_age
from drumbeat.cli.terminal.connect import connect
from drumbeat.cli.terminal.formatting import count, format_duration, format_hours, format_moment
from drumbeat.cli.terminal.help import AsJson
from drumbeat.cli.terminal.json_output import print_json
from drumbeat.cli.terminal.screen import cell, fill_table, make_table, show
from drumbeat.model.api.use import Price, UseGroup, UseHistoryView, UseStep

if TYPE_CHECKING:
    from rich.table import Table

    from drumbeat.model.api.use import IdleJob

Compute = Annotated[str, typer.Argument(metavar="[NAME]", help="A compute; all of them without any.")]
By = Annotated[UseGroup, typer.Option("--by", help="What the rows are.")]
Since = Annotated[str, typer.Option("--since", metavar="AGE", help="From so long ago on: 24h, 7d, 30d.")]
Until = Annotated[str | None, typer.Option("--until", metavar="AGE", help="Until so long ago; now without it.")]
Step = Annotated[UseStep | None, typer.Option("--step", help="The width of the parts that --json tells apart.")]
GpuHour = Annotated[float | None, typer.Option("--gpu-hour", metavar="X", help="What an hour of a GPU costs.")]
SlotHour = Annotated[float | None, typer.Option("--slot-hour", metavar="X", help="What an hour of a CPU slot costs.")]
Currency = Annotated[str | None, typer.Option("--currency", metavar="NAME", help="Of all computes: EUR, USD.")]


def use(
    name: Compute = "",
    by: By = UseGroup.USER,
    since: Since = "7d",
    until: Until = None,
    step: Step = None,
    as_json: AsJson = False,
) -> None:
    """Show what jobs held of a compute, or of all: by whom, how much of it was used, what was free, who waited.

    The hours are those of `drumbeat ledger` for the same time. --json has them by hour, day or week.
    """
    now = datetime.now(UTC)
    end = now - parse_age(until, "--until") if until else None
    view = connect().use(name, by=by, since=now - parse_age(since, "--since"), until=end, step=step)
    if as_json:
        print_json(view)
        return
    show(use_table(view))
    for line in use_lines(view):
        print(line)


def price(
    name: Name, gpu_hour: GpuHour = None, slot_hour: SlotHour = None, currency: Currency = None, as_json: AsJson = False
) -> None:
    """Show or set what an hour of a compute costs, for the ledger's costs. Both prices 0: it has none any more."""
    client = connect()
    shown = client.price(name)
    if (gpu_hour, slot_hour, currency) != (None, None, None):
        gpu, slot = (
            old if new is None else new for new, old in ((gpu_hour, shown.gpu_hour), (slot_hour, shown.slot_hour))
        )
        shown = client.set_price(name, Price(gpu, slot, currency or ""))
    if as_json:
        print_json(shown)
    elif shown.gpu_hour or shown.slot_hour:
        unit = f" {shown.currency}" if shown.currency else ""
        print(f"compute {name}: {shown.gpu_hour:g}{unit} for an hour of a GPU, {shown.slot_hour:g}{unit} of a CPU slot")
    else:
        print(f"compute {name} has no price")


def use_table(view: UseHistoryView) -> Table:
    """Returns a row for each series, with its share of what was held, and their total."""
    table = make_table(str(view.by), ">GPU-hours", ">share", ">slot-hours", ">share")
    rows: list[list[object]] = [
        [one.name, *_amount(sum(one.gpu_s), view.gpu_s), *_amount(sum(one.slot_s), view.slot_s)] for one in view.series
    ]
    if len(rows) > 1:
        rows.append([cell("total", "bold"), format_hours(view.gpu_s), "", format_hours(view.slot_s), ""])
    return fill_table(table, rows)


def _amount(seconds: float, whole: float) -> tuple[str, str]:
    return (format_hours(seconds), f"{seconds / whole:.0%}") if seconds and whole else ("", "")


def use_lines(view: UseHistoryView) -> Iterator[str]:
    """Yields what was used of it, what was free, how long jobs waited, and which held the most without use."""
    where = f"compute {view.compute}" if view.compute else "all computes"
    yield f"{where}, {format_moment(view.since)} to {format_moment(view.until)}"
    if view.gpu_s:
        used = sum(view.busy_gpu_s) / view.gpu_s
        yield f"GPUs really used: {used:.0%} of what was held{_free(view, view.gpus, view.gpu_s)}"
    if view.slot_s:
        used = sum(view.work_slot_s) / view.slot_s
        yield f"slots whose ranks worked: {used:.0%} of what was held{_free(view, view.slots, view.slot_s)}"
    if view.waits.p50_s is not None and view.waits.p95_s is not None:
        half, most = (format_duration(timedelta(seconds=one)) for one in (view.waits.p50_s, view.waits.p95_s))
        yield f"{count(view.waits.jobs, 'job')} waited: half of them up to {half}, 19 of 20 up to {most}"
    for one in view.idle:
        yield f"idle while held: {describe_idle(one)}"


def _free(view: UseHistoryView, levels: tuple[float | None, ...], held_s: float) -> str:
    """Says what was free, where it is known what there was for the whole time."""
    if not levels or None in levels:
        return ""
    whole = sum((level or 0.0) * length for level, length in zip(levels, view.lengths_s, strict=True))
    return f"; {format_hours(max(whole - held_s, 0.0))} of {format_hours(whole)} hours were free" if whole else ""


def describe_idle(one: IdleJob) -> str:
    """Says how much a job held without use."""
    whose = f"{one.person}'s {one.job}" if one.person else one.job
    if one.idle_gpu_s > 0:
        return f"{format_hours(one.idle_gpu_s)} of {format_hours(one.gpu_s)} GPU-hours of {whose}"
    return f"{format_hours(one.idle_slot_s)} of {format_hours(one.slot_s)} slot-hours of {whose}"
