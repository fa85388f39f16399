"""Nodes and ranks of large jobs in few rows: those that are alike together, the odd ones first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import TypeVar

from drumbeat.model.api.jobs import ExitView, NodeView

T = TypeVar("T")
K = TypeVar("K")

MAX_ROWS = 32
"""Of more nodes or ranks than these, those that are alike share a row."""
MAX_RANGES = 6
"""So many ranges of numbers are named in a row."""


def node_state(node: NodeView) -> tuple[str, str]:
    """Returns how far a node is, and what it says of it."""
    return "lost" if node.lost else node.phase, node.error or node.detail


def node_groups(nodes: Iterable[NodeView]) -> list[tuple[tuple[str, str], list[NodeView]]]:
    """Returns nodes by their state: lost ones and those with an error first, then the rarest states."""
    groups = _grouped(nodes, node_state)
    return sorted(groups, key=lambda group: (not any(one.lost or one.error for one in group[1]), len(group[1])))


def exit_groups(exits: Iterable[ExitView], describe: Callable[[ExitView], str]) -> list[tuple[str, list[ExitView]]]:
    """Returns the ends of ranks by what they ended with, the rarest first."""
    return sorted(_grouped(exits, describe), key=lambda group: len(group[1]))


def _grouped(some: Iterable[T], key: Callable[[T], K]) -> list[tuple[K, list[T]]]:
    groups: defaultdict[K, list[T]] = defaultdict(list)
    for one in some:
        groups[key(one)].append(one)
    return [*groups.items()]


def format_ranges(numbers: Sequence[int]) -> str:
    """Formats numbers as `0-3, 7, 9-4095`; of many ranges, the first ones and how many numbers there are more."""
    ranges = [
        [number for _, number in run] for _, run in groupby(enumerate(sorted(numbers)), key=lambda p: p[1] - p[0])
    ]
    words = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in ranges[:MAX_RANGES]]
    more = sum(len(run) for run in ranges[MAX_RANGES:])
    return ", ".join(words) + (f" and {more:,} more" if more else "")
