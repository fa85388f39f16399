"""The order in which the nodes of a job measure their links: rounds of pairs that share no node. Pure."""

from __future__ import annotations

MAX_ROUNDS = 15
"""The maximum number of rounds: with more nodes, every node measures only this many of its links."""


def rounds(nodes: int) -> list[list[tuple[int, int]]]:
    """Returns rounds of disjoint pairs that contain each pair of nodes once, the lower node first.

    This is the circle method of tournaments: one place is fixed, the others rotate by one in each round. An odd number
    of nodes gets an empty place, so that one node rests in each round.
    """
    places = nodes + nodes % 2
    return [_pairs(round_, places, nodes) for round_ in range(places - 1)] if nodes > 1 else []


def _pairs(round_: int, places: int, nodes: int) -> list[tuple[int, int]]:
    moving = places - 1
    pairs = [(moving, round_)]
    pairs += [((round_ + step) % moving, (round_ - step) % moving) for step in range(1, places // 2)]
    return sorted((min(pair), max(pair)) for pair in pairs if max(pair) < nodes)


def peers(node: int, nodes: int, most: int = MAX_ROUNDS) -> list[int]:
    """Returns the peers of a node's measurements, in order; with many nodes, those of evenly spaced rounds."""
    if nodes < 2:
        return []
    count = nodes - 1 + nodes % 2
    chosen = range(count) if count <= most else [count * number // most for number in range(most)]
    places = nodes + nodes % 2
    return [peer for round_ in chosen if (peer := _peer(node, round_, places)) < nodes]


def _peer(node: int, round_: int, places: int) -> int:
    """Returns a node's peer in a round without listing the round, which would cost a thousand
    nodes a thousand times.
    """
    moving = places - 1
    if node == moving:
        return round_
    peer = (2 * round_ - node) % moving
    return moving if peer == node else peer
