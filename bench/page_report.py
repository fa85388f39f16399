"""The report of the page's benchmark, as Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bench.spread import ratios, say, spread
from drumbeat.core.use_times import percentile
from drumbeat.server.page.routes import HTML, built_files

if TYPE_CHECKING:
    from bench.page import Measured
    from tests.real.browsers import Seen

GOAL_FIRST_S, GOAL_USABLE_S, GOAL_TASK_MS, GOAL_DRAG_MS, GOAL_SCRIPTS_KB = 0.3, 0.5, 50.0, 100.0, 45.0
SLIDER = f"a gallery's slider shows a step in ≤ {GOAL_DRAG_MS:.0f} ms (p95), from the first one on"
HEAD = """\
# The web page

<!-- Written by `make bench-page`. -->

Headless Chromium opens each screen on the machine of the server, with an empty cache, from a store with 13,000 jobs, a
sweep of 1,000 trials of 100 points each, 20 curves of a million points, 2,000 runs with 15 parameters and 15 metrics, a
log of a million lines, a table of 100,000 rows and a gallery of 100 steps of 8 images. *Usable* is when the content has
been painted that the screen is opened for: the hundredth row, the curves, the end of the log. *Bare* is a page of
uvicorn with one word on it, opened by the same Chromium in the same round. Ratios are taken within a round. Each figure
is the median, in brackets the inner half and the ends of {rounds} rounds.

Machine: {machine}.

| screen | first paint, s | usable, s | ratio to bare | longest task, ms | kB transferred |
|---|---|---|---|---|---|
{rows}

## While data arrives

A job prints 100 lines and logs 10 points of two metrics a second; each screen is observed for {watch:.0f} s after it
is usable. A browser reports tasks from 50 ms on.

| screen | longest task, ms | tasks over 50 ms in a round |
|---|---|---|
{live}

## Goals

| goal | measured | |
|---|---|---|
{goals}
"""


def render(measured: Measured, watch_s: float, machine: str) -> str:
    """The whole page."""
    bare = [one.ready / 1000 for one in measured.bare]
    rows = [row("bare", measured.bare, bare), *(row(name, seen, bare) for name, seen in measured.screens.items())]
    return HEAD.format(
        rounds=len(bare), machine=machine, watch=watch_s, rows="\n".join(rows),
        live="\n".join(live_row(name, seen) for name, seen in measured.live.items()), goals="\n".join(goals(measured)),
    )  # fmt: skip


def row(name: str, seen: Sequence[Seen], bare: list[float]) -> str:
    """A screen."""
    usable = [one.ready / 1000 for one in seen]
    cells = [
        say(spread([one.first / 1000 if one.first else None for one in seen])),
        say(spread(usable)),
        say(spread(ratios(usable, bare)), digits=1),
        say(spread([longest(one.tasks) for one in seen]), digits=0),
        say(spread([one.transferred / 1000 for one in seen]), digits=0),
    ]
    return f"| {name} | {' | '.join(cells)} |"


def live_row(name: str, seen: Sequence[Seen]) -> str:
    """A screen that was observed."""
    tasks = say(spread([float(len(one.live)) for one in seen]), digits=0)
    return f"| {name} | {say(spread([longest(one.live) for one in seen]), digits=0)} | {tasks} |"


def longest(tasks: Sequence[float]) -> float:
    """0 = there was none over 50 ms."""
    return max(tasks, default=0.0)


def goals(measured: Measured) -> list[str]:
    """Each goal beside the median of its worst screen."""
    first = {name: middle([one.first or 0.0 for one in seen]) / 1000 for name, seen in measured.screens.items()}
    usable = {name: middle([one.ready for one in seen]) / 1000 for name, seen in measured.screens.items()}
    opened = {name: middle([longest(one.tasks) for one in seen]) for name, seen in measured.screens.items()}
    tasks = {name: middle([longest(one.live) for one in seen]) for name, seen in measured.live.items()}
    dragged = {
        name: middle([p95(one.dragged) for one in seen])
        for name, seen in measured.screens.items()
        if any(one.dragged for one in seen)
    }
    told = [goal(SLIDER, dragged, GOAL_DRAG_MS, "{:.0f} ms")] if dragged else []
    return [
        *told,
        goal(f"first paint ≤ {GOAL_FIRST_S} s", first, GOAL_FIRST_S, "{:.2f} s"),
        goal(f"every screen usable in ≤ {GOAL_USABLE_S} s", usable, GOAL_USABLE_S, "{:.2f} s"),
        goal(f"no task over {GOAL_TASK_MS:.0f} ms while a screen opens", opened, GOAL_TASK_MS, "{:.0f} ms"),
        goal(f"no task over {GOAL_TASK_MS:.0f} ms while data arrives", tasks, GOAL_TASK_MS, "{:.0f} ms"),
        goal(f"first scripts ≤ {GOAL_SCRIPTS_KB:.0f} kB compressed", first_scripts(), GOAL_SCRIPTS_KB, "{:.0f} kB"),
    ]


def first_scripts() -> dict[str, float]:
    """Kilobytes of the scripts that every screen waits for, as they are sent."""
    files = built_files()
    names = re.findall(rb'"/ui/(assets/[^" ]+\.js)"', files[HTML].content)
    return {f"{len(names)} files": sum(len(files[name.decode()].zipped) for name in names) / 1000}


def p95(times: Sequence[float]) -> float:
    """The 95th percentile; 0 = there are none."""
    return percentile(times, 0.95) or 0.0


def goal(words: str, values: dict[str, float], limit: float, form: str) -> str:
    """A line: the worst value, and whether it is within the limit."""
    worst = max(values, key=lambda name: values[name])
    return f"| {words} | {form.format(values[worst])} ({worst}) | {'met' if values[worst] <= limit else '**missed**'} |"


def middle(values: Sequence[float]) -> float:
    """The median."""
    sample = spread(values)
    return sample.median if sample else 0.0
