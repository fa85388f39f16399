"""What the nodes and ranks of a job use over time, as the API shows it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class ResourceSeriesView:
    """One measurement of a node or a rank over the job's time."""

    name: str
    """Without `system/`. Its end is its unit: `_percent`, `_cores`, `_mib`, `_mib_s`, `_power_w`, `_temperature_c`."""
    rank: int
    """-1 is node 0 itself, -2 node 1."""
    values: tuple[float | None, ...]
    """The mean of each part of the time; null = nothing was measured in it."""
    last: float
    highest: float


@dataclass(frozen=True)
class IdleRowView:
    """A rank, or the GPU of a node, that is idle while the others work."""

    name: str
    """The measurement that shows it."""
    rank: int


@dataclass(frozen=True)
class ResourcesView:
    """What the nodes and ranks of a job use, in equally long parts of its time."""

    job: str
    sentence: str = ""
    """How well it uses what it holds, and who is idle; "" = too little was measured."""
    start: datetime | None = None
    """The first measurement; null = there is none."""
    part_s: float = 0.0
    """The length of each part."""
    parts: int = 0
    series: tuple[ResourceSeriesView, ...] = ()
    idle: tuple[IdleRowView, ...] = ()
