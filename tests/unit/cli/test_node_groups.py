"""Nodes and ranks of large jobs, as `drumbeat show` prints them."""

from __future__ import annotations

from drumbeat.cli.terminal.node_groups import exit_groups, format_ranges, node_groups
from drumbeat.model.api.jobs import ExitView, NodeView


def test_nodes_that_are_alike_share_a_row_and_odd_ones_come_first() -> None:
    nodes = [NodeView(number, "m", phase="running") for number in range(4096)]
    nodes[9] = NodeView(9, "m", lost=True)
    nodes[11] = NodeView(11, "m", phase="preparing", detail="building")
    nodes[12] = NodeView(12, "m", phase="preparing", error="disk full")
    rows = [(state, format_ranges([one.node for one in some])) for state, some in node_groups(nodes)]
    assert rows == [
        (("lost", ""), "9"),
        (("preparing", "disk full"), "12"),
        (("preparing", "building"), "11"),
        (("running", ""), "0-8, 10, 13-4095"),
    ]


def test_ends_of_ranks_are_grouped_by_how_they_ended() -> None:
    ends = [ExitView(rank, None if rank else 1, None if not rank else 15, 0.0) for rank in range(100)]
    groups = exit_groups(ends, lambda one: "SIGTERM" if one.signal else f"exit code {one.code}")
    assert [(word, len(some)) for word, some in groups] == [("exit code 1", 1), ("SIGTERM", 99)]


def test_many_ranges_are_cut() -> None:
    assert format_ranges([*range(0, 20, 2), 19]) == "0, 2, 4, 6, 8, 10 and 5 more"
