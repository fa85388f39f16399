"""The order in which the nodes of a job measure their links: rounds of pairs that share no node. Pure."""

from __future__ import annotations

MAX_ROUNDS = 15
"""With more nodes than one of these rounds each can pair, every node measures this many of its links."""


def rounds(nodes: int) -> list[list[tuple[int, int]]]:
    """Returns rounds of disjoint pairs, in which each pair of nodes stands once, the lower node first.

    This is the circle method of tournaments: one place stays, the others move on by one in each round. An odd number
    of nodes gets a place that belongs to none, so that in each round one node rests.
    """
    places = nodes + nodes % 2
    return [_pairs(round_, places, nodes) for round_ in range(places - 1)] if nodes > 1 else []


def _pairs(round_: int, places: int, nodes: int) -> list[tuple[int, int]]:
    moving = places - 1
    pairs = [(moving, round_)]
    pairs += [((round_ + step) % moving, (round_ - step) % moving) for step in range(1, places // 2)]
    return sorted((min(pair), max(pair)) for pair in pairs if max(pair) < nodes)


def peers(node: int, nodes: int, most: int = MAX_ROUNDS) -> list[int]:
    """Returns whom a node measures a link with, in order; with many nodes, those of rounds that lie evenly apart."""
    if nodes < 2:
        return []
    count = nodes - 1 + nodes % 2
    chosen = range(count) if count <= most else [count * number // most for number in range(most)]
    places = nodes + nodes % 2
    return [peer for round_ in chosen if (peer := _peer(node, round_, places)) < nodes]


def _peer(node: int, round_: int, places: int) -> int:
    """Returns a node's peer in a round without listing the round, which a thousand nodes would do a thousand times."""
    moving = places - 1
    if node == moving:
        return round_
    peer = (2 * round_ - node) % moving
    return moving if peer == node else peer
