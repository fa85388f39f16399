"""Thins the curves of metrics: chooses the points of a series that represent all of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import cast

from drumbeat.model.metrics import Point

MIN_POINTS = 4
"""A curve shows at least its first, lowest, highest and last point."""


def thin(points: Sequence[Point], max_points: int) -> list[Point]:
    """Returns at most `max_points` of the points in their order.

    It keeps the first, the last, and the lowest and the highest of each of equally long parts. A part in which no value
    is a number is represented by its first point.
    """
    return [points[n] for n in thin_values([point.value for point in points], max_points)]


def thin_values(values: Sequence[float], max_points: int) -> list[int]:
    """Returns the indices of the points that `thin` keeps, by the values of all of them."""
    if len(values) <= max(max_points, MIN_POINTS):
        return list(range(len(values)))
    numbers: Sequence[float | None] = values
    if any(map(math.isnan, values)):
        numbers = [None if math.isnan(value) else value for value in values]
    kept = {0, len(values) - 1}
    for start, end in parts(len(values), part_count(max_points)):
        part = numbers[start:end]
        kept |= {start + first_lowest(part), start + first_highest(part)}
    return sorted(kept)


def first_lowest(values: Sequence[float | None]) -> int:
    """Returns the index of the first of the lowest values; None stands for NaN. 0 if all are."""
    return _first(values, min)


def first_highest(values: Sequence[float | None]) -> int:
    """Returns the index of the first of the highest values, as `first_lowest` does."""
    return _first(values, max)


def _first(values: Sequence[float | None], choose: Callable[[Iterable[float]], float]) -> int:
    # The sequence's own functions: a loop in Python would take most of the time.
    if None not in values:
        return values.index(choose(cast("Sequence[float]", values)))
    numbers = [value for value in values if value is not None]
    return values.index(choose(numbers)) if numbers else 0


def part_count(max_points: int) -> int:
    """Returns into how many parts a series is divided for so many points: each part may give two of them."""
    return max((max_points - 2) // 2, 1)


def parts(length: int, count: int) -> Iterator[tuple[int, int]]:
    """Yields start and end of `count` parts of a sequence, whose lengths differ by at most one."""
    for n in range(count):
        start, end = n * length // count, (n + 1) * length // count
        if start < end:
            yield start, end


def lowest(points: Sequence[Point], start: int, end: int) -> int:
    """Returns the index of the first of the lowest points; `start` if no value is a number."""
    return min(range(start, end), key=lambda n: _low_key(points[n].value))


def highest(points: Sequence[Point], start: int, end: int) -> int:
    """Returns the index of the first of the highest points; `start` if no value is a number."""
    return min(range(start, end), key=lambda n: _low_key(-points[n].value))


def latest(points: Sequence[Point]) -> Point:
    """Returns the point with the highest step; among these the latest, then the highest, as MLflow does."""
    return max(points, key=_latest_key)


def lower(one: Point | None, other: Point) -> Point | None:
    """Returns the lower of two points, the first if they are equal; None if neither is a number."""
    return _better(one, other, sign=1)


def higher(one: Point | None, other: Point) -> Point | None:
    """Returns the higher of two points, the first if they are equal; None if neither is a number."""
    return _better(one, other, sign=-1)


def _better(one: Point | None, other: Point, sign: int) -> Point | None:
    if math.isnan(other.value):
        return one
    return other if one is None or sign * other.value < sign * one.value else one


def _low_key(value: float) -> tuple[bool, float]:
    return (True, 0.0) if math.isnan(value) else (False, value)


def _latest_key(point: Point) -> tuple[int, int, bool, float]:
    is_number = not math.isnan(point.value)
    return point.step, point.at_ms, is_number, point.value if is_number else 0.0
