"""The page of faults, as Markdown."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

from tools.faults.curves import Curve
from tools.faults.engines import GROUNDS
from tools.faults.fault_list import NETWORKED, ROWS, Row
from tools.faults.incidents_report import escape
from tools.faults.records import Kept, Played
from tools.faults.scene import Seen
from tools.faults.targets import HITS
from tools.hangs import records as hangs

HEAD = """\
# Faults

<!-- Written by `make faults`. -->

What drumbeat did when each of these faults was given to real processes, and what `torchrun` did with the same script
in the same run. Seconds are from the fault to what is told, unless that says otherwise; the median of n runs, in
brackets their ends. *Green*: as it must be, in every run. *Later*: drumbeat has no answer yet. *Load* is that of the
machine when the row was played: other work ran beside it, and seconds are longer than on a quiet one.

Machine: {machine}.

`make faults ONLY="words|others"` plays the rows that have such words in their names again, and leaves the others as
they are (`docs/faults.json` keeps them).

## On one machine
"""
TABLE = """
| fault | drumbeat | n | seconds | verdict | torchrun | seconds | load |
|---|---|---|---|---|---|---|---|
"""
ON_NODES = """
## On nodes with addresses of their own

The nodes are network namespaces of one machine ([netlab](engines.md)); each has one rank. `torchrun` runs on the same
nodes with the same script: one on each, with `--nnodes=1:2` (or the numbers of nodes that the row has),
`--rdzv-backend=c10d`, `--max-restarts=3`. It is watched for 90 s. The node that is hit isn't the one that holds its
rendezvous.
"""
HANGS = """
## Hangs

Of {cases} labelled cases, each a real script that hangs or is silent without being hung, {right} verdicts were right,
with {alarms} false alarms: [hang-set.md](hang-set.md) has each of them. `torchrun` notices no hang. Its ranks wait
until the process group's own timeout, which is 30 minutes for gloo, raises in them.
"""
CURVES = """
## The same loss curve

The model and data of the demo (`tests/real/resumable_classifier.py`) on 2 nodes with 2 ranks each, and the fault at a
random step. *Equal*: every loss and learning rate of every rank and step, the trained model, and the checkpoints that
both jobs have kept are those of an unbroken job, bit for bit, by the comparison of [`drumbeat rehearse`](rehearse.md).
In brackets, how often the ranks were started again, whether on new nodes, and the step at which they went on. What
differs between two unbroken jobs isn't judged: the state of Python's own generator, which the script doesn't seed.

"""
NOT_HERE = """
Kills at every commit, effect and write, and writes that fail, are played by the tests (`tests/chaos`,
`tests/contract/test_killed_writers.py`), faults at random instants by `make chaos`, also on netlab and Slurm, and
schedules of many faults by the simulator, in `make check`. The clock is moved for drumbeat's processes alone, by a
library that they load. Preemption is Slurm's ([bench/preempt.md](bench/preempt.md) has its cost). Other engines are
in [matrix.md](matrix.md).
"""


def render(kept: Kept) -> str:
    """Returns the whole page."""
    return "".join([HEAD.format(machine=describe_machine()), *_sections(kept)])


def _sections(kept: Kept) -> Iterator[str]:
    yield from _say_rows(kept, [row for row in ROWS if row not in NETWORKED])
    yield ON_NODES
    yield from _say_rows(kept, NETWORKED)
    cases = [*hangs.load().values()]
    right = sum(one["is_right"] for one in cases)
    alarms = sum(one["verdict"]["stillness"] == "hung" for one in cases if not one["is_hang"])
    yield HANGS.format(cases=len(cases), right=right, alarms=alarms)
    yield CURVES
    yield from _say_curves(kept)
    yield NOT_HERE
    yield kept.incidents


def _say_rows(kept: Kept, rows: Sequence[Row]) -> Iterator[str]:
    yield TABLE
    for row in rows:
        if row.name in kept.rows:
            yield say_row(kept.rows[row.name]) + "\n"


def _say_curves(kept: Kept) -> Iterator[str]:
    yield f"| fault | {' | '.join(GROUNDS)} |\n{'|---' * (len(GROUNDS) + 1)}|\n"
    for hit in HITS:
        cells = [_say_curve(kept.curves.get((hit.name, engine)), is_played=engine in hit.engines) for engine in GROUNDS]
        yield f"| {' | '.join([hit.name, *cells])} |\n"


def _say_curve(curve: Curve | None, *, is_played: bool) -> str:
    if curve is None:
        return "not played yet" if is_played else "–"
    if not curve.is_equal:
        return f"**{'not played' if curve.is_equal is None else 'not equal'}**: {escape(curve.said)}"
    if not curve.restarts:
        return "equal (no restart)"
    nodes = " on new nodes" if curve.attempts > 1 else ""
    times = "once" if curve.restarts == 1 else f"{curve.restarts} times"
    return f"equal ({times}{nodes}, from step {curve.resumed} of {curve.steps})"


def say_row(played: Played) -> str:
    """Returns one line of a table."""
    worst = next((seen for seen in played.ours if seen.is_right is False), played.ours[-1])
    theirs = sorted({seen.sentence for seen in played.theirs})
    cells = (
        played.name,
        worst.sentence,
        str(len(played.ours)),
        say_seconds(played.ours),
        f"**{played.verdict}**",
        "; ".join(theirs) or "–",
        say_seconds(played.theirs),
        f"{played.load:.0f}",
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
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    cpu = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{cpu}, {len(os.sched_getaffinity(0))} cores, {memory_gib:.0f} GiB; Linux {platform.release().split('-')[0]}, "
        f"Python {platform.python_version()}, torch {version('torch')}"
    )
