"""The report of a benchmark as Markdown. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from drumbeat.bench.cases import SYNTHETIC
from drumbeat.bench.results import Results
from drumbeat.bench.summary import ScalingRow, Spread

_EXPLAINED = """\
*Efficiency* is images per second divided by those of one rank times the number of ranks (same network and repeat).
*Data* is the wait for images, *compute* a step without other ranks while all of them compute, *sync* what averaging
the gradients adds to it: the part that isn't hidden behind the computation. Each job measures three blocks of {steps}
steps; the table has the median of the jobs ({repeats} of each case), and in brackets the lowest and the highest.
"""


def render_page(results: Results, rows: Sequence[ScalingRow], warnings: Sequence[str], *, picture: str = "") -> str:
    """Returns the page. picture: the name of the chart's file beside it, "" = no chart."""
    benchmark = results.benchmark
    parts = [
        f"# Scaling of {benchmark.model}\n",
        f"<!-- Written by `{command_line(results)}`. -->\n",
        f"{describe(results)}\n\nMachine: {results.machine}.\n",
        "".join(f"> **Warning:** {warning}.\n" for warning in warnings),
        table(rows),
        _EXPLAINED.format(steps=benchmark.steps, repeats=max((row.repeats for row in rows), default=0)),
        f"![Images per second by the number of ranks]({picture})\n" if picture else "",
    ]
    return "\n".join(part for part in parts if part)


def describe(results: Results) -> str:
    """Returns a sentence that describes what was measured."""
    benchmark, measured = results.benchmark, results.measurements
    count = f", {measured[0].parameters:,} parameters" if measured else ""
    images = "synthetic images" if benchmark.data == SYNTHETIC else "JPEG files"
    devices = sorted({one.device for one in measured})
    where = f" on {' and '.join(devices)}" if devices else ""
    options = [benchmark.precision if benchmark.precision != "fp32" else ""]
    options += ["channels_last" if benchmark.channels_last else "", "compiled" if benchmark.compile else ""]
    more = "".join(f", {option}" for option in options if option)
    size = f"{benchmark.image_size}×{benchmark.image_size}"
    return (
        f"{benchmark.model}{count}, with {benchmark.framework} by {benchmark.backend}{where}{more}; "
        f"{images}, {size}, batch {benchmark.batch_size} of each rank, {benchmark.ranks_per_node} rank"
        f"{'s' if benchmark.ranks_per_node > 1 else ''} a node."
    )


def command_line(results: Results) -> str:
    """Returns the command that repeats the measurement."""
    benchmark = results.benchmark
    words = ["drumbeat bench", "--model", benchmark.model, "--framework", benchmark.framework]
    words += ["--ranks", ",".join(map(str, benchmark.ranks))]
    if benchmark.networks:
        words += ["--network", ",".join(benchmark.networks)]
    words += ["--batch-size", str(benchmark.batch_size), "--image-size", str(benchmark.image_size)]
    return " ".join([*words, "--steps", str(benchmark.steps), "--repeats", str(benchmark.repeats)])


def table(rows: Sequence[ScalingRow]) -> str:
    """Returns the figures as a Markdown table."""
    lines = ["| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|"]
    lines += ["| " + " | ".join(cells(row)) + " |" for row in rows]
    return "\n".join(lines) + "\n"


COLUMNS = ("network", "ranks", "images/s", "efficiency", "step ms", "data ms", "compute ms", "sync ms")


def cells(row: ScalingRow) -> list[str]:
    """Returns the cells of a row, by `COLUMNS`."""
    parts = (row.step_ms, row.data_ms, row.compute_ms, row.sync_ms)
    return [
        row.network or "as it is",
        str(row.ranks),
        ranged(row.images_per_s, "{:.1f}"),
        ranged(row.efficiency, "{:.0%}") if row.efficiency else "",
        *(f"{part:.1f}" for part in parts),
    ]


def ranged(values: Spread, form: str) -> str:
    """Returns `12.3 (11.9–12.8)`."""
    lowest, highest = form.format(values.lowest), form.format(values.highest)
    return f"{form.format(values.median)} ({lowest}–{highest})"
