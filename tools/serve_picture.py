"""Draws what clients of an endpoint saw: requests, how long answers took, and failures, over time."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BIN_S = 0.1
WIDTH, HEIGHT = 100, 14
"""Of a chart in the terminal, in characters."""


@dataclass(frozen=True)
class Request:
    """A request that has ended."""

    ended_s: float
    """Since the first one was sent."""
    took_s: float
    failure: str = ""
    """What came in place of 200; "" = it didn't fail."""


@dataclass(frozen=True)
class Timeline:
    """Requests by intervals of BIN_S."""

    ends_s: list[float]
    answered: list[int]
    failed: list[int]
    longest_ms: list[float]


def timeline_of(requests: Sequence[Request]) -> Timeline:
    """Counts requests by intervals."""
    count = int(max(one.ended_s for one in requests) / BIN_S) + 1
    answered, failed, longest = [0] * count, [0] * count, [0.0] * count
    for one in requests:
        place = int(one.ended_s / BIN_S)
        if one.failure:
            failed[place] += 1
        else:
            answered[place] += 1
        longest[place] = max(longest[place], one.took_s * 1000)
    return Timeline([round((place + 1) * BIN_S, 3) for place in range(count)], answered, failed, longest)


def summary(requests: Sequence[Request]) -> str:
    """Says in a line how many requests there were, how long they took, and how many failed."""
    took_ms = sorted(one.took_s * 1000 for one in requests)
    points = took_ms[len(took_ms) // 2], took_ms[int(len(took_ms) * 0.99)], took_ms[-1]
    p50, p99, longest = (f"{one:.0f}" for one in points)
    failures = sum(bool(one.failure) for one in requests)
    return f"{len(requests):,} requests, p50 {p50} ms, p99 {p99} ms, longest {longest} ms, failures = {failures}"


def print_charts(requests: Sequence[Request], kill_s: float) -> None:
    """Prints two charts to the terminal: requests per interval, and the longest wait in each."""
    import plotext

    plot: Any = plotext
    line = timeline_of(requests)
    for title, values, colour in (
        (f"requests answered per {BIN_S * 1000:.0f} ms", line.answered, "green"),
        ("longest wait, ms", line.longest_ms, "blue"),
    ):
        plot.clear_figure()
        plot.theme("clear")
        plot.plot_size(WIDTH, HEIGHT)
        plot.title(f"{title} (red: kill -9 of a replica at {kill_s:.1f} s)")
        plot.plot(line.ends_s, values, color=colour)
        plot.vline(kill_s, color="red")
        plot.ylim(0, max(1, *values))
        plot.xlabel("seconds")
        drawn: str = plot.build()
        print(drawn if sys.stdout.isatty() else plot.uncolorize(drawn))
        print()


def write_svg(path: Path, requests: Sequence[Request], kill_s: float, ready_s: float) -> None:
    """Draws the same as an SVG. ready_s: when all replicas were ready again."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    line = timeline_of(requests)
    figure, (counts, waits) = plt.subplots(2, 1, sharex=True, figsize=(10, 6), layout="constrained")
    figure.suptitle(summary(requests))
    counts.bar(line.ends_s, line.answered, width=-BIN_S, align="edge", color="#2a9d6f", label="answered")
    counts.bar(line.ends_s, line.failed, -BIN_S, line.answered, align="edge", color="#d1332e", label="failed")
    counts.set_ylabel(f"requests per {BIN_S * 1000:.0f} ms")
    waits.plot([one.ended_s for one in requests], [one.took_s * 1000 for one in requests], ".", ms=3, color="#3566c8")
    waits.set_ylabel("time of each, ms")
    waits.set_xlabel("seconds")
    waits.set_ylim(bottom=0)
    for axes in (counts, waits):
        axes.axvline(kill_s, color="#d1332e", label="kill -9 of a replica")
        axes.axvline(ready_s, color="#888888", linestyle="--", label="both replicas ready again")
    figure.legend(*counts.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    figure.savefig(path)
    plt.close(figure)
