"""Curves of metrics drawn in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from drumbeat.cli.terminal.untrusted_text import make_safe
from drumbeat.protocol.api.metrics import CurveView

BARS = "▁▂▃▄▅▆▇█"
HEIGHT = 16
MAX_WIDTH = 110
COLORS = ("cyan", "yellow", "magenta", "green", "blue", "red")


def sparkline(curve: CurveView) -> str:
    """Returns a curve in one line: a bar for each point, in the order of steps. What is no number is left out."""
    points = sorted((one.step, one.value) for one in curve.points if not isinstance(one.value, str))
    values = [value for _, value in points]
    low, high = min(values, default=0.0), max(values, default=0.0)
    scale = (len(BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(BARS[round((value - low) * scale)] for value in values)


def draw(name: str, curves: Sequence[CurveView], width: int, *, is_colored: bool) -> str:
    """Returns a picture of one metric: value over step, one curve for each rank. Infinite values are left out."""
    import plotext

    plot: Any = plotext
    plot.clear_figure()
    plot.plotsize(min(width, MAX_WIDTH), HEIGHT)
    plot.theme("clear")
    plot.title(make_safe(name))
    plot.xlabel("step")
    left_out = 0
    for n, curve in enumerate(curves):
        points = sorted((one.step, one.value) for one in curve.points if not isinstance(one.value, str))
        left_out += len(curve.points) - len(points)
        steps, values = [step for step, _ in points], [value for _, value in points]
        label = f"rank {curve.rank}" if len(curves) > 1 or curve.rank else None
        options = {"color": COLORS[n % len(COLORS)]} if is_colored else {}
        plot.plot(steps, values, marker="braille", label=label, **options)
    picture = str(plot.build())
    if not is_colored:
        picture = plot.uncolorize(picture)
    lines = [line.rstrip() for line in picture.splitlines()]
    if left_out:
        lines.append(f"{left_out} of these points are infinite or no numbers and aren't drawn")
    return "\n".join(lines)
