"""The scaling chart: images per second by ranks beside the ideal line, the efficiency, and the parts of a step.

matplotlib comes with `pip install 'drumbeat[bench]'`; without it no chart is drawn.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from drumbeat.bench.summary import ScalingRow

INSTALL = "pip install 'drumbeat[bench]'"
PARTS = (("data", "#9a9a9a"), ("compute", "#3b6fb6"), ("sync", "#d1662f"))


def draw(rows: Sequence[ScalingRow], title: str, file: Path) -> bool:
    """Writes the chart as PNG or SVG, by the file's suffix; returns False where matplotlib isn't installed."""
    try:
        matplotlib: Any = importlib.import_module("matplotlib")
        matplotlib.use("Agg")
        figures: Any = importlib.import_module("matplotlib.figure")
    except ImportError:
        return False
    # Makes the file reproducible: equal figures give equal bytes.
    matplotlib.rcParams["svg.hashsalt"] = "drumbeat"
    figure: Any = figures.Figure(figsize=(15, 4.5), layout="constrained")
    speed, efficiency, step = figure.subplots(1, 3)
    _draw_speed(speed, rows)
    _draw_efficiency(efficiency, rows)
    _draw_steps(step, rows)
    figure.suptitle(title)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=120, metadata={"Date": None} if file.suffix == ".svg" else None)
    return True


def _draw_speed(axes: Any, rows: Sequence[ScalingRow]) -> None:
    networks = list(dict.fromkeys(row.network for row in rows))
    for network in networks:
        mine = [row for row in rows if row.network == network]
        ranks = [row.ranks for row in mine]
        middle = [row.images_per_s.median for row in mine]
        below = [row.images_per_s.median - row.images_per_s.lowest for row in mine]
        above = [row.images_per_s.highest - row.images_per_s.median for row in mine]
        axes.errorbar(ranks, middle, yerr=[below, above], marker="o", capsize=3, label=network or "measured")
    alone = [row.images_per_s.median for row in rows if row.ranks == 1]
    ranks = sorted({row.ranks for row in rows})
    if alone:
        axes.plot(ranks, [count * max(alone) for count in ranks], "k--", linewidth=1, label="100 %")
    axes.set(xlabel="ranks", ylabel="images/s", xticks=ranks, ylim=(0, None))
    axes.legend()


def _draw_efficiency(axes: Any, rows: Sequence[ScalingRow]) -> None:
    networks = list(dict.fromkeys(row.network for row in rows))
    ranks = sorted({row.ranks for row in rows if row.efficiency})
    width = 0.8 / len(networks)
    for index, network in enumerate(networks):
        mine = [row for row in rows if row.network == network and row.efficiency]
        places = [ranks.index(row.ranks) + (index - (len(networks) - 1) / 2) * width for row in mine]
        percent = [100 * row.efficiency.median for row in mine if row.efficiency]
        bars = axes.bar(places, percent, width=0.9 * width, label=network or "measured")
        axes.bar_label(bars, fmt="%.0f", size=8)
    axes.set(xlabel="ranks", ylabel="efficiency, %", xticks=range(len(ranks)), ylim=(0, None))
    axes.set_xticklabels(ranks)
    axes.legend()


def _draw_steps(axes: Any, rows: Sequence[ScalingRow]) -> None:
    labels = [f"{row.ranks} {row.network}".rstrip() for row in rows]
    below = [0.0] * len(rows)
    for name, colour in PARTS:
        parts = [getattr(row, f"{name}_ms") for row in rows]
        axes.bar(range(len(rows)), parts, bottom=below, color=colour, label=name)
        below = [under + part for under, part in zip(below, parts, strict=True)]
    axes.set(xlabel="ranks", ylabel="ms of a step", xticks=range(len(rows)))
    axes.set_xticklabels(labels, size=8, rotation=45, ha="right", rotation_mode="anchor")
    axes.legend()
