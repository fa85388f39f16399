"""The order in which nodes measure their links."""

from __future__ import annotations

import pytest

from drumbeat.node.preflight.link_stream import rate
from drumbeat.node.preflight.preflight import MAX_ROUNDS, measured_peers, rounds

pytestmark = pytest.mark.feature("B3")


@pytest.mark.parametrize("nodes", range(33))
def test_each_pair_stands_once_in_a_round_without_another_pair_of_its_nodes(nodes: int):
    made = rounds(nodes)
    pairs = [pair for round_ in made for pair in round_]
    assert len(pairs) == len(set(pairs)) == nodes * (nodes - 1) // 2
    assert all(low < high for low, high in pairs)
    for round_ in made:
        assert len({node for pair in round_ for node in pair}) == 2 * len(round_)
    assert len(made) == (nodes - 1 + nodes % 2 if nodes > 1 else 0)


@pytest.mark.parametrize("nodes", [1, 2, 3, 8, 15])
def test_peers_of_a_node_are_those_of_the_rounds_in_order(nodes: int):
    for node in range(nodes):
        own = [low + high - node for round_ in rounds(nodes) for low, high in round_ if node in (low, high)]
        assert measured_peers(node, nodes) == own


@pytest.mark.parametrize("nodes", [17, 100, 1001])
def test_many_nodes_measure_some_links_each_from_both_of_its_nodes(nodes: int):
    chosen = [measured_peers(node, nodes) for node in range(nodes)]
    assert {len(one) for one in chosen} <= {MAX_ROUNDS - 1, MAX_ROUNDS}
    assert all(node in chosen[peer] for node, own in enumerate(chosen) for peer in own)


def test_rate_excludes_the_initial_burst_of_a_shaper():
    bucket = [(0.0, 0), (0.01, 1_000_000)]
    shaped = [(0.01 + 0.02 * n, 1_000_000 + 25_000 * n) for n in range(1, 8)]
    assert rate([*bucket, *shaped], 0.15) == pytest.approx(10_000_000)
    assert rate([(0.0, 100)], 0.15) == -1
