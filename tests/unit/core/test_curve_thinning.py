"""A thinned curve stands for the whole series, whatever the values are."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumbeat.core.curve_thinning import higher, latest, lower, part_count, parts, thin
from drumbeat.model.metrics import Point

pytestmark = pytest.mark.feature("M3")

VALUES = st.lists(st.floats(width=32) | st.sampled_from([math.nan, math.inf, -math.inf, 0.0]), max_size=300)


def points(values: list[float]) -> list[Point]:
    return [Point("loss", value, step, step) for step, value in enumerate(values)]


@given(values=VALUES, max_points=st.integers(4, 60))
def test_any_thinning_keeps_first_last_lowest_and_highest(values: list[float], max_points: int) -> None:
    series = points(values)
    kept = thin(series, max_points)
    assert len(kept) <= max_points
    assert [point.step for point in kept] == sorted({point.step for point in kept})
    assert all(any(point is one for one in series) for point in kept)
    if len(series) <= max_points:
        assert kept == series
    if series:
        assert (kept[0], kept[-1]) == (series[0], series[-1])
    numbers = [value for value in values if not math.isnan(value)]
    if numbers:
        shown = [point.value for point in kept if not math.isnan(point.value)]
        assert (min(shown), max(shown)) == (min(numbers), max(numbers))


@given(values=st.lists(st.floats(allow_nan=False), min_size=50, max_size=300), max_points=st.integers(4, 40))
def test_each_part_of_a_thinned_curve_has_its_lowest_and_highest(values: list[float], max_points: int) -> None:
    series = points(values)
    kept = {point.step for point in thin(series, max_points)}
    for start, end in parts(len(series), part_count(max_points)):
        part = values[start:end]
        assert {start + part.index(min(part)), start + part.index(max(part))} <= kept


@given(length=st.integers(0, 1000), count=st.integers(1, 200))
def test_parts_cover_a_sequence_once_and_are_equally_long(length: int, count: int) -> None:
    covered = list(parts(length, count))
    assert [n for start, end in covered for n in range(start, end)] == list(range(length))
    lengths = [end - start for start, end in covered]
    assert not lengths or max(lengths) - min(lengths) <= 1


def test_equal_points_keep_the_first_as_lowest_and_highest() -> None:
    first, second = Point("loss", 1, 0, 0), Point("loss", 1, 1, 1)
    assert lower(lower(None, first), second) == first
    assert higher(higher(None, first), second) == first
    assert lower(None, Point("loss", math.nan, 0, 0)) is None


def test_the_latest_point_has_the_highest_step_then_time_then_value() -> None:
    nan = Point("loss", math.nan, 5, 9)
    series = [Point("loss", 9, 4, 99), Point("loss", 1, 5, 9), nan, Point("loss", 7, 5, 8)]
    assert latest(series) == series[1]
