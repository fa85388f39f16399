"""The report of bench/logs.py, as Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.serving import at_percent
from bench.spread import ratios, say, spread

if TYPE_CHECKING:
    from bench.logs import Found

HEAD = """\
# Logs

<!-- Written by `make bench-logs`. -->

Ratios are taken within a round, in which every way has its turn. Each figure is the median, in brackets the inner half
and the ends.

Machine: {machine}.

## What is kept

Everything that a rank writes to stdout and stderr, byte by byte, on the server and until then on its node; there is no
limit and nothing is rotated away. The server's disk isn't filled silently: logs, outputs and snapshots leave its last
64 MiB (of a small disk a twentieth) to the database. Once they are reached the server takes no more of a log, ranks go
on and write to their node, and whoever looks at the job reads why (`drumbeat show`, the end of `drumbeat logs`). When
there is room again, the rest is sent: no line is lost, none comes twice. The job ends when its logs are stored.

"""


def render(found: Found, machine: str, lines: int) -> str:
    """The whole page."""
    parts = [HEAD.format(machine=machine), _cost(found, lines), _rates(found), _latencies(found), _memory(found)]
    return "\n".join(parts)


def _cost(found: Found, lines: int) -> str:
    ways = {
        "file": "a plain file",
        "drumbeat": "a log of drumbeat's",
        "torchrun": "`torchrun --redirects 3 --tee 3`",
    }
    seconds, plain = found.loops, found.loops["file"]
    rows = [
        f"| {words} | {say(spread(seconds[name]))} | {say(spread(ratios(seconds[name], plain)))} |"
        for name, words in ways.items()
    ]
    head = f"## What it costs the rank\n\nSeconds of a Python loop that prints {lines:,} lines one by one to …\n\n"
    return head + "| to | seconds | ratio to a plain file |\n|---|---|---|\n" + "\n".join(rows) + "\n"


def _rates(found: Found) -> str:
    ways = {
        "1 ranks": "one rank, until all of it is stored and the job has ended",
        "2 ranks": "each of two ranks at once, likewise",
        "followed": "one rank, until `drumbeat logs -f` has printed it all",
        "one line": "1 GiB on one line, followed by `drumbeat logs -f`",
    }
    rows = [f"| {words} | {say(spread(found.rates[name]))} |" for name, words in ways.items() if name in found.rates]
    head = "## How fast\n\nMiB a second, the start of the job included; the goal is 20 for a rank.\n\n"
    return head + "| what | MiB/s |\n|---|---|\n" + "\n".join(rows) + "\n"


def _latencies(found: Found) -> str:
    ways = {f"a line, beside {beside}": seen for beside, seen in found.latencies.items()}
    ways["the job's end, after all of its lines"] = found.ends
    rows = [
        f"| {what} | {len(seen)} | "
        + " | ".join(f"{1000 * at_percent(seen, percent):.0f}" for percent in (50, 99, 100))
        + " |"
        for what, seen in ways.items()
    ]
    head = (
        "## How soon\n\nMilliseconds from the print of a line, or from the end of the job, to a follower's program; "
        "the goal is 100.\n\n"
    )
    return head + "| what | n | p50 | p99 | longest |\n|---|---|---|---|---|\n" + "\n".join(rows) + "\n"


def _memory(found: Found) -> str:
    rows = [
        f"| {when} | {who} | {mib:.0f} |" for when, seen in found.memory.items() for who, mib in sorted(seen.items())
    ]
    head = "## Memory\n\nThe most MiB (PSS; of the follower RSS) that each kind of process had together.\n\n"
    return head + "| during | of | MiB |\n|---|---|---|\n" + "\n".join(rows) + "\n"
