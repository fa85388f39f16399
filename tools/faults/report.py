"""The page of faults, as Markdown."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.faults.blamed import Blamed, escape, say_incidents
from tools.faults.rows import Row
from tools.faults.scene import Seen

HEAD = """\
# Faults

<!-- Written by `make faults`. -->

What drumbeat did when each of these faults was given to real processes on one machine, and what `torchrun` did with the
same script in the same run. Seconds are from the fault to what is told, unless that says otherwise; the median of n
runs, in brackets their ends. *Green*: as it must be, in every run. *Later*: drumbeat has no answer yet.

Machine: {machine}. The run took {minutes:.1f} minutes.

| fault | drumbeat | n | seconds | verdict | torchrun | seconds |
|---|---|---|---|---|---|---|
"""
NOT_HERE = """
Not played here: a node that is switched off (`tests/real`, and [matrix.md](matrix.md)), a server that is killed while
it sweeps (no sweeps yet), the bitwise equal loss after a resume (no checkpoints yet). Kills at every commit, effect and
write, and writes that fail, are played by the tests (`tests/chaos`, `tests/contract/test_killed_writers.py`), faults at
random instants by `make chaos`, and schedules of many faults by the simulator, in `make check`. The clock is moved for
drumbeat's processes alone, by a library that they load.
"""


@dataclass
class Played:
    """A row, and what was seen."""

    row: Row
    ours: list[Seen] = field(default_factory=list)
    theirs: list[Seen] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        """green, red or later."""
        if any(seen.is_right is False for seen in self.ours):
            return "red"
        return "later" if any(seen.is_right is None for seen in self.ours) else "green"


def render(played: Sequence[Played], incidents: Blamed, seconds: float) -> str:
    """The whole page."""
    rows = [say_row(each) for each in played]
    page = HEAD.format(machine=describe_machine(), minutes=seconds / 60) + "\n".join(rows) + "\n" + NOT_HERE
    return page + (say_incidents(incidents) if incidents.ours else "")


def say_row(played: Played) -> str:
    """One line of the table."""
    worst = next((seen for seen in played.ours if seen.is_right is False), played.ours[-1])
    theirs = sorted({seen.sentence for seen in played.theirs})
    cells = (
        played.row.name,
        worst.sentence,
        str(len(played.ours)),
        say_seconds(played.ours),
        f"**{played.verdict}**",
        "; ".join(theirs) or "–",
        say_seconds(played.theirs),
    )
    return "| " + " | ".join(escape(cell) for cell in cells) + " |"


def say_seconds(seen: Sequence[Seen]) -> str:
    """`0.21 (0.20–0.25)`."""
    known = [each.seconds for each in seen if each.seconds is not None]
    if not known:
        return ""
    median = f"{statistics.median(known):.2f}"
    return f"{median} ({min(known):.2f}–{max(known):.2f})" if len(known) > 1 else median


def describe_machine() -> str:
    """Processor, cores, memory, versions; nothing that names the machine."""
    import torch

    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    cpu = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{cpu}, {len(os.sched_getaffinity(0))} cores, {memory_gib:.0f} GiB; Linux {platform.release().split('-')[0]}, "
        f"Python {platform.python_version()}, torch {torch.__version__}; load {os.getloadavg()[0]:.1f}"
    )
