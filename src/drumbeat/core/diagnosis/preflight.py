"""Judges the pre-flight of a gang: which node is the worst, and whether one can't take part at all. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from drumbeat.model.plurals import counted
from drumbeat.model.preflight import LinkCheck, NodeCheck

SLOW_FACTOR = 4
"""A link counts as slow below this part of what a usual node reaches."""
LATE_FACTOR, LATE_US = 4, 5_000
"""A node is far away whose shortest round trip is so many times the usual one, and longer by this."""
MAX_CLOCK_MS = 5_000
MIN_FREE_BYTES = 1 << 30
MAX_WRITE_MS = 5_000
"""For 1 MiB, through to the disk."""


@dataclass(frozen=True)
class CheckedNode:
    """A node of the gang with its pre-flight. gpus: asked for."""

    node: int
    place: str
    """`node 2 (gpu-12)`."""
    check: NodeCheck
    gpus: int = 0


@dataclass(frozen=True)
class PreflightProblem:
    """What is wrong with a node, or with the link between two. weight: the heaviest is named first."""

    nodes: tuple[int, ...]
    sentence: str
    weight: float


@dataclass(frozen=True)
class PreflightVerdict:
    """The result of a gang's pre-flight."""

    sentence: str
    """The worst node first."""
    isolated: int | None = None
    """A node that reaches no other one, while those reach each other."""
    is_partitioned: bool = False
    """Whether no node reaches another one."""
    problems: tuple[PreflightProblem, ...] = ()
    worst: int | None = None


@dataclass(frozen=True)
class Pair:
    """A link with both of its nodes."""

    node: int
    link: LinkCheck

    @property
    def nodes(self) -> tuple[int, int]:
        """Both, the lower one first."""
        return min(self.node, self.link.peer), max(self.node, self.link.peer)


def tried_pairs(checks: Mapping[int, NodeCheck]) -> list[Pair]:
    """Returns every pair that a node has tried, by its nodes. checks: by node."""
    pairs = [Pair(node, link) for node, check in checks.items() for link in check.links]
    return sorted((pair for pair in pairs if pair.link.peer in checks), key=lambda pair: pair.nodes)


def judge(nodes: Sequence[CheckedNode]) -> PreflightVerdict:
    """Judges a gang of at least two nodes."""
    places = {one.node: one.place for one in nodes}
    pairs = tried_pairs({one.node: one.check for one in nodes})
    failed = [pair for pair in pairs if pair.link.error]
    tried = [pair for pair in pairs if pair.link.error or pair.link.round_trip_us > 0]
    if failed and len(failed) == len(tried):
        return PreflightVerdict(_describe_partition(failed, places), is_partitioned=True)
    if (alone := _isolated(tried, places)) is not None:
        why = next(pair.link.error for pair in failed if alone in pair.nodes)
        return PreflightVerdict(f"{places[alone]} reaches none of the other nodes: {why}", isolated=alone)
    problems = [*_unreached(failed, places), *_by_machine(nodes), *_clocks(pairs, places), *_slow(pairs, places)]
    problems += _far(pairs, places)
    problems.sort(key=lambda one: -one.weight)
    return _verdict(nodes, pairs, places, problems)


def _verdict(
    nodes: Sequence[CheckedNode], pairs: Sequence[Pair], places: Mapping[int, str], problems: Sequence[PreflightProblem]
) -> PreflightVerdict:
    measured = [pair for pair in pairs if pair.link.bits_per_s > 0]
    slowest = min(measured, key=lambda pair: pair.link.bits_per_s, default=None)
    begin = f"pre-flight of {counted(len(nodes), 'node')}"
    if problems:
        first, *others = problems
        more = "; ".join(one.sentence for one in others[:2])
        left = f"; and {counted(len(others) - 2, 'more problem')}" if len(others) > 2 else ""
        sentence = f"{begin}: {first.sentence}" + (f"; {more}{left}" if more else "")
        return PreflightVerdict(sentence, problems=tuple(problems), worst=first.nodes[-1])
    if slowest is None:
        return PreflightVerdict(f"{begin}: the time was too short to measure a link between them")
    low, high = slowest.nodes
    speed = format_rate(slowest.link.bits_per_s)
    usual = format_rate(_usual(_best(measured)))
    trip = format_time(slowest.link.round_trip_us)
    sentence = f"{begin}: all is well; the slowest link is {places[low]} to {places[high]} with {speed}, {trip}"
    return PreflightVerdict(sentence + (f" (usual: {usual})" if len(measured) > 1 else ""), worst=high)


# --- reach --------------------------------------------------------------------------------------------------------
def _describe_partition(failed: Sequence[Pair], places: Mapping[int, str]) -> str:
    first = failed[0]
    low, high = first.nodes
    count = "" if len(failed) == 1 else f", and the same holds for {counted(len(failed) - 1, 'other pair')}"
    return (
        f"the nodes can't reach each other: {places[high]} can't call {places[low]}: {first.link.error}{count}. Check "
        "the firewalls between them, or name a network that they share: drumbeat.network"
    )


def _isolated(tried: Sequence[Pair], places: Mapping[int, str]) -> int | None:
    """Returns the first node all of whose links failed; with two nodes it can't be said which one is to blame."""
    if len(places) < 3:
        return None
    for node in places:
        own = [pair for pair in tried if node in pair.nodes]
        if own and all(pair.link.error for pair in own) and any(not pair.link.error for pair in tried):
            return node
    return None


def _unreached(failed: Sequence[Pair], places: Mapping[int, str]) -> list[PreflightProblem]:
    return [
        PreflightProblem(
            pair.nodes, f"{places[pair.node]} can't call {places[pair.link.peer]}: {pair.link.error}", 1000
        )
        for pair in failed
    ]


# --- the machine --------------------------------------------------------------------------------------------------
def _by_machine(nodes: Sequence[CheckedNode]) -> list[PreflightProblem]:
    problems: list[PreflightProblem] = []
    for one in nodes:
        check = one.check
        if 0 <= check.gpus < one.gpus:
            sentence = f"{one.place} sees {counted(check.gpus, 'GPU')} of {one.gpus}"
            problems.append(PreflightProblem((one.node,), sentence, 500))
        if 0 <= check.free_bytes < MIN_FREE_BYTES:
            sentence = f"{one.place} has {check.free_bytes >> 20} MiB of its disk left"
            problems.append(PreflightProblem((one.node,), sentence, 300))
        if check.write_ms > MAX_WRITE_MS:
            sentence = f"the disk of {one.place} took {check.write_ms / 1000:.1f} s for 1 MiB"
            problems.append(PreflightProblem((one.node,), sentence, 100))
    return problems


# --- clocks -------------------------------------------------------------------------------------------------------
def clocks_ms(pairs: Sequence[Pair]) -> dict[int, int]:
    """Returns by how many ms each node's clock is ahead of the median clock; of two nodes, of node 0's."""
    differences: dict[int, dict[int, int]] = {}
    for pair in pairs:
        if pair.link.round_trip_us > 0:
            differences.setdefault(pair.node, {})[pair.link.peer] = pair.link.clock_ms
            differences.setdefault(pair.link.peer, {})[pair.node] = -pair.link.clock_ms
    ahead, reached = dict[int, int](), sorted(differences)[:1]
    ahead |= dict.fromkeys(reached, 0)
    for node in reached:  # It grows with each node that is compared with one before it.
        for peer, ms in differences[node].items():
            if peer not in ahead:
                ahead[peer] = ahead[node] + ms
                reached.append(peer)
    usual = statistics.median_low(ahead.values()) if len(ahead) > 2 else 0
    return {node: ms - usual for node, ms in sorted(ahead.items())}


def _clocks(pairs: Sequence[Pair], places: Mapping[int, str]) -> list[PreflightProblem]:
    off = {node: ms for node, ms in clocks_ms(pairs).items() if abs(ms) > MAX_CLOCK_MS}
    return [
        PreflightProblem(
            (node,),
            f"the clock of {places[node]} is {abs(ms) / 1000:.1f} s {'ahead of' if ms > 0 else 'behind'} the others'",
            200 + abs(ms) / 1000,
        )
        for node, ms in off.items()
    ]


# --- speed --------------------------------------------------------------------------------------------------------
def _best(measured: Sequence[Pair]) -> dict[int, int]:
    """Returns the best rate of each node: that of a slow node's peers isn't theirs."""
    best: dict[int, int] = {}
    for pair in measured:
        for node in pair.nodes:
            best[node] = max(best.get(node, 0), pair.link.bits_per_s)
    return best


def _usual(values: Mapping[int, int]) -> int:
    return round(statistics.median(values.values())) if values else 0


def _slow(pairs: Sequence[Pair], places: Mapping[int, str]) -> list[PreflightProblem]:
    """Finds nodes all of whose links are slow, and slow links between others."""
    measured = [pair for pair in pairs if pair.link.bits_per_s > 0]
    best = _best(measured)
    usual = _usual(best)
    nodes = [node for node, rate in best.items() if rate * SLOW_FACTOR < usual]
    problems = [
        PreflightProblem(
            (node,),
            f"{places[node]} has slow links: {format_rate(best[node])} at best, "
            f"where others reach {format_rate(usual)}",
            usual / max(1, best[node]),
        )
        for node in nodes
    ]
    for pair in measured:
        rate = pair.link.bits_per_s
        if rate * SLOW_FACTOR < usual and not set(pair.nodes) & set(nodes):
            low, high = pair.nodes
            link = f"the link between {places[low]} and {places[high]}"
            sentence = f"{link} has {format_rate(rate)}, others {format_rate(usual)}"
            problems.append(PreflightProblem(pair.nodes, sentence, usual / rate))
    return problems


def _far(pairs: Sequence[Pair], places: Mapping[int, str]) -> list[PreflightProblem]:
    nearest: dict[int, int] = {}
    for pair in pairs:
        if pair.link.round_trip_us > 0:
            for node in pair.nodes:
                nearest[node] = min(nearest.get(node, pair.link.round_trip_us), pair.link.round_trip_us)
    usual = _usual(nearest)
    return [
        PreflightProblem(
            (node,),
            f"{places[node]} is far from the others: {format_time(trip)} for a round trip, where others take "
            f"{format_time(usual)}",
            trip / max(1, usual) / 10,
        )
        for node, trip in nearest.items()
        if trip > usual * LATE_FACTOR and trip > usual + LATE_US
    ]


# --- words --------------------------------------------------------------------------------------------------------
def format_rate(bits_per_s: float) -> str:
    """Returns `940 Mbit/s`, `1.2 Gbit/s`."""
    for factor, unit in ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")):
        if bits_per_s >= factor:
            value = bits_per_s / factor
            return f"{value:.0f} {unit}" if value >= 10 else f"{value:.1f} {unit}"
    return f"{bits_per_s:.0f} bit/s"


def format_time(microseconds: float) -> str:
    """Returns `0.12 ms`, `3.4 ms`, `52 ms`."""
    ms = microseconds / 1000
    return f"{ms:.2f} ms" if ms < 1 else f"{ms:.1f} ms" if ms < 10 else f"{ms:.0f} ms"
