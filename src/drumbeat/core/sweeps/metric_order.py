"""How values of the primary metric compare: the goal's direction, NaN as the worst value, and a tolerance."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Literal

Goal = Literal["minimize", "maximize"]
TOLERANCE = 1e-9
"""Relative. 0.8 - 0.2 is 0.6000000000000001 in floating point: a trial that reported 0.6 is at that limit."""


def worst(goal: Goal) -> float:
    """Returns the worst possible value."""
    return math.inf if goal == "minimize" else -math.inf


def best(values: Iterable[float], goal: Goal) -> float:
    """Returns the best of the values; the worst possible one where there are none, or only NaN."""
    numbers = comparable(values, goal)
    return (min if goal == "minimize" else max)(numbers, default=worst(goal))


def best_first(values: Iterable[float], goal: Goal) -> list[float]:
    """Returns the values sorted, the best one first."""
    return sorted(comparable(values, goal), key=lambda value: sort_key(value, goal))


def sort_key(value: float | None, goal: str) -> float:
    """Returns a number that is smaller for a better value; None, like NaN, is the worst."""
    if value is None or math.isnan(value):
        return math.inf
    return value if goal == "minimize" else -value


def comparable(values: Iterable[float], goal: Goal) -> list[float]:
    """Returns the values with NaN replaced by the worst one."""
    return [worst(goal) if math.isnan(value) else value for value in values]


def average(values: Sequence[float], goal: Goal) -> float:
    """Returns the mean; the worst possible value if one of them is that."""
    numbers = comparable(values, goal)
    return worst(goal) if worst(goal) in numbers else math.fsum(numbers) / len(numbers)


def is_worse(value: float, limit: float, goal: Goal) -> bool:
    """Whether a value is beyond the limit; one at the limit, within the tolerance, isn't."""
    if math.isclose(value, limit, rel_tol=TOLERANCE):
        return False
    return value > limit if goal == "minimize" else value < limit
