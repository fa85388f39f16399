"""Medians, spread and scaling efficiency of a benchmark's measurements. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from drumbeat.bench.results import Block, Measurement, Results

MAX_BUSY = 0.1
"""The share of the processors that others may use before a warning."""
MAX_SPREAD = 0.1
"""The share of the median by which the middle half of the values may spread before a warning."""


@dataclass(frozen=True)
class Spread:
    """The median, the lowest and the highest of some values."""

    median: float
    lowest: float
    highest: float

    @property
    def width(self) -> float:
        """The range of the values as a share of the median."""
        return (self.highest - self.lowest) / self.median if self.median else 0.0


@dataclass(frozen=True)
class ScalingRow:
    """One number of ranks on one network, over all repeats."""

    network: str
    ranks: int
    repeats: int
    images_per_s: Spread
    efficiency: Spread | None
    """Images per second divided by those of one rank, times the number of ranks, in the same repeat; None if one rank
    wasn't run.
    """
    step_ms: float
    data_ms: float
    compute_ms: float
    sync_ms: float


def spread(values: Sequence[float]) -> Spread:
    """Returns the spread of at least one value."""
    return Spread(statistics.median(values), min(values), max(values))


def summarize(results: Results) -> list[ScalingRow]:
    """Returns a row for each network and number of ranks that has been measured."""
    networks = results.benchmark.networks or ("",)
    rows = [_row(results, network, ranks) for network in networks for ranks in results.benchmark.ranks]
    return [row for row in rows if row is not None]


def _row(results: Results, network: str, ranks: int) -> ScalingRow | None:
    mine = [one for one in results.measurements if (one.case.network, one.case.ranks) == (network, ranks)]
    if not mine:
        return None
    blocks = [block for one in mine for block in one.blocks]
    alone = {
        one.case.repeat: _speed(one)
        for one in results.measurements
        if (one.case.network, one.case.ranks) == (network, 1)
    }
    shares = [_speed(one) / ranks / alone[one.case.repeat] for one in mine if one.case.repeat in alone]
    return ScalingRow(
        network,
        ranks,
        len(mine),
        spread([_speed(one) for one in mine]),
        spread(shares) if shares else None,
        step_ms=_median(blocks, lambda block: block.step_ms),
        data_ms=_median(blocks, lambda block: block.data_ms),
        compute_ms=_median(blocks, lambda block: block.compute_ms),
        sync_ms=_median(blocks, lambda block: block.sync_ms),
    )


def _speed(measurement: Measurement) -> float:
    return statistics.median(block.images_per_s for block in measurement.blocks)


def _median(blocks: Sequence[Block], value: Callable[[Block], float]) -> float:
    return statistics.median(map(value, blocks))


def ranks_in_words(ranks: int) -> str:
    """Returns `1 rank` or `2 ranks`."""
    return "1 rank" if ranks == 1 else f"{ranks} ranks"


def warnings(results: Results, rows: Sequence[ScalingRow], cores: int, *, is_here: bool) -> list[str]:
    """Returns a sentence for each reason to doubt the figures. is_here: the ranks ran on this machine."""
    messages: list[str] = []
    busy = statistics.median(one.busy for one in results.measurements) if results.measurements else 0.0
    if is_here and busy > MAX_BUSY:
        share = f"other programs used {busy:.0%} of its processors before the runs"
        messages.append(f"the machine was busy: {share}. More ranks take a larger share, so efficiency looks too high")
    needed = results.benchmark.ranks[-1] * results.benchmark.threads
    if is_here and needed > cores and any(one.device == "cpu" for one in results.measurements):
        ranks = f"{results.benchmark.ranks[-1]} ranks of {results.benchmark.threads} thread"
        messages.append(f"{ranks} share {cores} cores: their efficiency is the machine's limit, not the network's")
    wide = [row for row in rows if row.images_per_s.width > MAX_SPREAD]
    if rows and min(row.repeats for row in rows) == 1:
        messages.append("some cases were measured only once, so their spread is unknown: see --repeats")
    if wide:
        worst = max(wide, key=lambda row: row.images_per_s.width)
        where = f" at {worst.network}" if worst.network else ""
        share = f"{worst.images_per_s.width:.0%}"
        messages.append(
            f"the repeats spread widely, by up to {share} of the median ({ranks_in_words(worst.ranks)}{where})"
        )
    return messages
