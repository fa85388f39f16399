"""Measures the steps of a running job by its metrics: their length, and the bytes that each sends. Pure."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

WARM_UP_STEPS = 3
MIN_STEPS = 5
"""After the warm-up; fewer don't predict the next ones."""


@dataclass(frozen=True)
class StepPoint:
    """A step that a rank has logged. at: seconds since any fixed time."""

    at: float
    step: int


@dataclass(frozen=True)
class SentSample:
    """The mean rate at which a node has sent since the sample before."""

    at: float
    bytes_per_s: float


def settled(points: Sequence[StepPoint]) -> list[StepPoint]:
    """Returns the points after the warm-up, each step once, in order; none if there are too few."""
    first: dict[int, StepPoint] = {}
    for point in points:
        first.setdefault(point.step, point)
    kept = [first[step] for step in sorted(first)][WARM_UP_STEPS:]
    return kept if len(kept) > MIN_STEPS else []


def step_s(points: Sequence[StepPoint]) -> float | None:
    """Returns the median time of a step, None if too few have been logged.

    Points may have come together, for a rank's buffer is sent now and then, so that whole stretches are compared.
    """
    kept = settled(points)
    if not kept:
        return None
    width = max(1, len(kept) // 4)
    stretches = zip(kept, kept[width:], strict=False)
    lengths = [(later.at - point.at) / (later.step - point.step) for point, later in stretches]
    return statistics.median(lengths)


def sent_per_step(points: Sequence[StepPoint], sent: Sequence[SentSample]) -> float | None:
    """Returns the bytes that a node sends in a step; None without a sample that lies wholly among steps."""
    kept = settled(points)
    if not kept:
        return None
    inside = [
        (before, sample)
        for before, sample in itertools.pairwise(sent)
        if kept[0].at <= before.at and sample.at <= kept[-1].at
    ]
    if not inside:
        return None
    total = sum(sample.bytes_per_s * (sample.at - before.at) for before, sample in inside)
    steps = _step_at(kept, inside[-1][1].at) - _step_at(kept, inside[0][0].at)
    return total / steps if steps > 0 else None


def _step_at(kept: Sequence[StepPoint], at: float) -> float:
    """Returns how far the steps were at a time, between two of them in proportion."""
    for before, point in itertools.pairwise(kept):
        if point.at >= at and point.at > before.at:
            share = (at - before.at) / (point.at - before.at)
            return before.step + max(0.0, share) * (point.step - before.step)
    return float(kept[-1].step)
