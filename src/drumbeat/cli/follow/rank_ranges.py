"""The ranks that have written a line, as the prefix of the line names them: `0:0-3,1:2 ×3`.

The colour of a rank is chosen in `cli/terminal/styles.py`, and `log_lines.py` puts both before the line.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from drumbeat.cli.follow.identical_lines import Fold
from drumbeat.protocol.logs import NODE_LOG, LogName, log_stem

RANGE_FROM = 3
"""So many ranks of a node in a row are written as a range."""


def name_ranks(logs: Iterable[LogName]) -> str:
    """`0:0,0:1,1:2`; ranks of a node in a row become `0:0-3`. The node itself is `0:node`."""
    places = sorted({(log.node, log.rank) for log in logs})
    rows = groupby(enumerate(places), key=lambda pair: (pair[1][0], pair[1][1] - pair[0]))
    return ",".join(_name_row([place for _, place in row]) for _, row in rows)


def _name_row(places: list[tuple[int, int]]) -> str:
    if len(places) < RANGE_FROM or places[0][1] == NODE_LOG:
        return ",".join(place_of(node, rank) for node, rank in places)
    return f"{places[0][0]}:{places[0][1]}-{places[-1][1]}"


def place_of(node: int, rank: int) -> str:
    """`0:1`, or `0:node` for the node's own log."""
    return f"{node}:{log_stem(rank)}"


def prefix_of(fold: Fold) -> str:
    """`0:0,0:1,1:2 ×3`: who wrote it, and how many lines it stands for where that is more than one."""
    return name_ranks(fold.times) + (f" ×{fold.count}" if fold.count > 1 else "")
