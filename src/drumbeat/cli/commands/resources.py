"""`resources`: how well a job uses what it holds: a sentence, a table of its nodes, a table of its ranks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from drumbeat.cli.terminal.connect import connect
from drumbeat.cli.terminal.formatting import bars, format_size
from drumbeat.cli.terminal.help import AsJson, Job
from drumbeat.cli.terminal.job_names import find_job
from drumbeat.cli.terminal.json_output import print_json
from drumbeat.cli.terminal.screen import cell, fill_table, heading, make_table, show

if TYPE_CHECKING:
    from rich.console import RenderableType

    from drumbeat.model.api.resources import ResourceSeriesView, ResourcesView

PARTS = 40
"""Of the job's time, in the bars of a rank."""
NONE_MEASURED = (
    "Nothing was measured of {}. Nodes measure every 5 s, and not at all where the job says `system_metrics: false`."
)

_GPU = re.compile(r"gpu_(.+?)_(percent|memory_mib|memory_percent|power_w|temperature_c)")
_OF_GPUS = {"percent": "busy", "memory_mib": "memory", "power_w": "power", "temperature_c": "temperature"}
_OF_NODES = {
    "cpu_percent": "CPU",
    "memory_mib": "memory",
    "disk_percent": "disk",
    "network_received_mib_s": "received",
    "network_sent_mib_s": "sent",
}
_OF_RANKS = {
    "gpu_percent": "GPU",
    "gpu_memory_mib": "GPU memory",
    "cpu_cores": "CPU cores",
    "memory_mib": "memory",
    "disk_read_mib_s": "read",
    "disk_written_mib_s": "written",
}
_BUSY = ("gpu_percent", "cpu_cores")
"""What of a rank is drawn over time: the first of these that any has."""


@dataclass(frozen=True)
class _Measured:
    """The measurements of a job by name and rank. idle: those of who is idle while the others work."""

    series: dict[tuple[str, int], ResourceSeriesView]
    idle: set[tuple[str, int]]

    def last(self, name: str, rank: int) -> float | None:
        one = self.series.get((name, rank))
        return one.last if one else None

    def capacity(self, name: str, rank: int) -> float | None:
        """Returns the whole of what a measurement in MiB is a part of, which its share tells; None = unknown."""
        used, share = self.last(name, rank), self.last(name.removesuffix("_mib") + "_percent", rank)
        return used * 100 / share if used and share else None

    def disk_mib(self, rank: int) -> float | None:
        """Returns the size of a node's disk, of which what is free and the share in use are measured."""
        free, share = self.last("disk_free_mib", rank), self.last("disk_percent", rank)
        return free * 100 / (100 - share) if free and share is not None and share < 100 else None


def resources(job: Job, as_json: AsJson = False) -> None:
    """Show how well a job uses what it holds: what its nodes and ranks use of CPU, memory, GPUs, disk and network.

    The last value, the mean over the job's time, and the highest; which rank is idle while the others work. Ranks have
    their means, and bars of how busy they were from the job's start to now. `--json` has each part of the time.
    """
    client = connect()
    name = find_job(client, job).name
    if as_json:
        print_json(client.job_resources(name))
    else:
        show(*render_resources(client.job_resources(name, max_parts=PARTS)))


def render_resources(view: ResourcesView) -> Iterator[RenderableType]:
    """Yields the sentence and both tables."""
    if not view.series:
        yield cell(NONE_MEASURED.format(view.job))
        return
    if view.sentence:
        yield cell(view.sentence, "yellow" if view.idle else "bold")
    measured = _Measured(
        {(one.name, one.rank): one for one in view.series}, {(one.name, one.rank) for one in view.idle}
    )
    if nodes := sorted({one.rank for one in view.series if one.rank < 0}, reverse=True):
        yield heading("Nodes")
        table = make_table("node", "resource", ">last", ">mean", ">highest", ">of")
        yield fill_table(table, [row for rank in nodes for row in _node_rows(measured, rank)])
    if ranks := sorted({one.rank for one in view.series if one.rank >= 0}):
        yield heading("Ranks")
        yield _rank_table(measured, ranks)


def _node_rows(measured: _Measured, rank: int) -> Iterator[list[object]]:
    names = [name for name in _OF_NODES if (name, rank) in measured.series]
    matches = [match for name, of in measured.series if of == rank and (match := _GPU.fullmatch(name))]
    gpus = [match for match in matches if match[2] in _OF_GPUS]
    gpus.sort(key=lambda match: (len(match[1]), match[1], [*_OF_GPUS].index(match[2])))
    first = str(-1 - rank)
    for name in (*names, *(match[0] for match in gpus)):
        one = measured.series[name, rank]
        whole = measured.disk_mib(rank) if name == "disk_percent" else measured.capacity(name, rank)
        amounts = [format_amount(name, value) for value in (one.last, _mean(one.values), one.highest)]
        title = cell(f"{_title(name)} (idle)", "yellow") if (name, rank) in measured.idle else _title(name)
        yield [first, title, *amounts, format_size(whole * 2**20) if whole else ""]
        first = ""


def _title(name: str) -> str:
    match = _GPU.fullmatch(name)
    return f"GPU {match[1]} {_OF_GPUS[match[2]]}" if match else _OF_NODES[name]


def _rank_table(measured: _Measured, ranks: Sequence[int]) -> RenderableType:
    names = [name for name in _OF_RANKS if any((name, rank) in measured.series for rank in ranks)]
    busy = next((name for name in _BUSY if name in names), "")
    top = 100.0 if busy == "gpu_percent" else max((_top(measured, busy, rank) for rank in ranks), default=0.0)
    rows: list[list[object]] = []
    for rank in ranks:
        of_rank = [measured.series.get((name, rank)) for name in names]
        amounts = [format_amount(one.name, _mean(one.values)) if one else "" for one in of_rank]
        drawn = measured.series.get((busy, rank))
        note = cell("idle", "yellow") if any((name, rank) in measured.idle for name in names) else ""
        rows.append([rank, *amounts, bars(drawn.values, top) if drawn else "", note])
    titles = [f">{_OF_RANKS[name]}" for name in names]
    return fill_table(make_table("rank", *titles, f"{_OF_RANKS[busy]} over time" if busy else "", ""), rows)


def _top(measured: _Measured, name: str, rank: int) -> float:
    one = measured.series.get((name, rank))
    return max((value for value in one.values if value is not None), default=0.0) if one else 0.0


def format_amount(name: str, value: float | None) -> str:
    """Returns a value with the unit that is the end of its measurement's name."""
    if value is None:
        return ""
    if name.endswith("percent"):
        return f"{value:.1f} %" if 0 < value < 10 else f"{value:.0f} %"
    if name.endswith("_mib_s"):
        return f"{format_size(value * 2**20)}/s"
    if name.endswith("_mib"):
        return format_size(value * 2**20)
    unit = {"_power_w": " W", "_temperature_c": " °C"}
    return next((f"{value:.0f}{sign}" for end, sign in unit.items() if name.endswith(end)), f"{value:.2f}")


def _mean(values: Sequence[float | None]) -> float | None:
    measured = [value for value in values if value is not None]
    return sum(measured) / len(measured) if measured else None
