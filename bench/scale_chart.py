"""The chart of `bench.scale`: how what a gang takes grows with its nodes, beside an earlier version.

matplotlib comes with `pip install 'drumbeat[bench]'`; without it there is no picture.
"""

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TITLES = ("CPU s, submit to RUN", "wall s, READY to RUN", "wall s, ended to left")


@dataclass(frozen=True)
class Point:
    """One gang."""

    database: str
    nodes: int
    start_cpu_s: float
    ready_to_run_s: float
    ended_to_left_s: float

    @property
    def figures(self) -> tuple[float, float, float]:
        """In the order of the titles."""
        return self.start_cpu_s, self.ready_to_run_s, self.ended_to_left_s


def read_points(tables: str) -> list[Point]:
    """The points of tables that `bench.scale` wrote, also of an earlier version."""
    points: list[Point] = []
    database = ""
    for line in tables.splitlines():
        if line.startswith("#"):
            database = line.strip("# ")
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and cells[0].replace(",", "").isdigit():
            start, ready, left = (float(cells[place]) for place in (2, 4, 7))
            points.append(Point(database, int(cells[0].replace(",", "")), start, ready, left))
    return points


def draw(now: Sequence[Point], before: Sequence[Point], file: Path) -> bool:
    """Writes the chart; False where matplotlib isn't installed."""
    try:
        matplotlib: Any = importlib.import_module("matplotlib")
        matplotlib.use("Agg")
        figures: Any = importlib.import_module("matplotlib.figure")
    except ImportError:
        return False
    matplotlib.rcParams["svg.hashsalt"] = "drumbeat"  # The same figures give the same file.
    figure: Any = figures.Figure(figsize=(15, 4.5), layout="constrained")
    for place, (title, axes) in enumerate(zip(TITLES, figure.subplots(1, 3), strict=True)):
        _draw_one(axes, place, now, before)
        axes.set(title=title, xlabel="nodes", xscale="log", yscale="log")
        axes.legend()
    figure.savefig(file, metadata={"Date": None})
    return True


def _draw_one(axes: Any, place: int, now: Sequence[Point], before: Sequence[Point]) -> None:
    for points, style, suffix in ((now, "o-", ""), (before, "x--", ", before")):
        for database in dict.fromkeys(one.database for one in points):
            own = [one for one in points if one.database == database]
            axes.plot([one.nodes for one in own], [one.figures[place] for one in own], style, label=database + suffix)
    if now:
        first, nodes = now[0], sorted({one.nodes for one in now})
        linear = [first.figures[place] * count / first.nodes for count in nodes]
        axes.plot(nodes, linear, "k:", linewidth=1, label="linear")
