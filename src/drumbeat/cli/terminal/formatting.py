"""Formats durations, moments, sizes and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from drumbeat.model.api.jobs import JobView
    from drumbeat.model.api.metrics import NotFiniteView, PrimaryView

_UNITS = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))


BARS = "▁▂▃▄▅▆▇█"


def format_duration(length: timedelta) -> str:
    """`0.4s`, `12s`, `2m 05s`, `3h 10m`, `2d 4h`: two units at most."""
    seconds = max(length.total_seconds(), 0.0)
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    whole = int(seconds + 0.05)
    for (large, size), (small, part) in pairwise(_UNITS):
        if whole >= size:
            rest = whole % size // part
            return f"{whole // size}{large} {rest:02d}{small}" if part == 1 else f"{whole // size}{large} {rest}{small}"
    return f"{whole}s"


def format_hours(seconds: float) -> str:
    """Formats slot-seconds or GPU-seconds as hours, like `35.2`; "" = none."""
    hours = seconds / 3600
    if not seconds:
        return ""
    return f"{hours:,.0f}" if hours >= 1000 else f"{hours:.1f}" if hours >= 1 else f"{hours:.2g}"


def format_ago(moment: datetime, now: datetime) -> str:
    """`12s ago`."""
    return f"{format_duration(now - moment)} ago"


def format_moment(moment: datetime) -> str:
    """Formats date and time in the local time zone, to the second."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def format_countdown(stop_at: datetime, now: datetime) -> str:
    """Formats the remaining grace time of a job that is being stopped."""
    left = (stop_at - now).total_seconds()
    return f"SIGKILL in {left:.0f}s" if left > 0.5 else "SIGKILL sent, waiting for the ranks to be gone"


def format_value(value: float | str) -> str:
    """`0.7523`, `1.2e-05`, `NaN`: four digits that count."""
    return value if isinstance(value, str) else f"{value:.4g}"


def format_metric(primary: PrimaryView) -> str:
    """`loss 0.7523`."""
    return f"{primary.name} {format_value(primary.value)}"


def format_best(primary: PrimaryView | None) -> str:
    """`0.7412 at step 80 (lower is better, by its name)`; "" where it isn't known which values are better."""
    if primary is None or primary.best is None or primary.best_step is None:
        return ""
    better = "higher" if primary.goal == "maximize" else "lower"
    ground = ", by its name" if primary.source == "guess" else ""
    return f"{format_value(primary.best)} at step {primary.best_step:,} ({better} is better{ground})"


def format_not_finite(lost: NotFiniteView | None) -> str:
    """`loss is NaN since step 91`; "" for None."""
    return f"{lost.name} is {lost.value} since step {lost.since_step:,}" if lost else ""


def format_result(job: JobView) -> str:
    """Formats the last value of a job's primary metric; of a sweep the best value, with its parameters."""
    if best := job.best_trial:
        parameters = ", ".join(f"{name} {format_parameter(value)}" for name, value in best.parameters.items())
        return f"best {best.name} {format_value(best.value)}" + (f" ({parameters})" if parameters else "")
    return format_metric(job.primary) if job.primary else ""


def format_parameter(value: Any) -> str:
    """Returns a parameter's value as a user writes it; a nested choice as its keys and values."""
    if isinstance(value, dict):
        return ", ".join(f"{key}={format_parameter(inner)}" for key, inner in value.items())  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, float):
        return f"{value:.6g}"
    return "" if value is None else str(value)


def format_size(size: float) -> str:
    """`812 B`, `3.4 MiB`."""
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


def format_shape(nodes: int, per_node: int, ranks: int) -> str:
    """`2 nodes × 2 per node = 4 ranks`, `2 nodes × 1 or 2 per node = 3 ranks`."""
    each = str(per_node) if ranks == nodes * per_node else f"{ranks // nodes} or {per_node}"
    return f"{count(nodes, 'node')} × {each} per node = {count(ranks, 'rank')}"


def format_launch(launcher: str, nodes: int, per_node: int, ranks: int) -> str:
    """`mpi on 2 nodes × 2 per node = 4 ranks`; a job of one rank without a launcher of its own is `1 process`."""
    if launcher == "pytorch" and ranks == 1:
        return "1 process on 1 node"
    return f"{launcher} on {format_shape(nodes, per_node, ranks)}"


def count(number: int, thing: str) -> str:
    """`1 node`, `2 nodes`."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def bars(values: Sequence[float | None], high: float, low: float = 0.0) -> str:
    """Returns a bar for each value: the shortest stands for `low`, the longest for `high`, a blank for None."""
    scale = (len(BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(" " if value is None else BARS[min(round((value - low) * scale), len(BARS) - 1)] for value in values)
