"""The arithmetic of the benchmarks."""

import pytest

from bench.spread import Spread, ratios, say, spread


def test_the_spread_holds_median_inner_half_and_ends():
    assert spread([4.0, 1.0, 3.0, 2.0, 5.0]) == Spread(3.0, 2.0, 4.0, 1.0, 5.0, 5)


def test_one_value_is_its_own_spread():
    assert spread([2.0]) == Spread(2.0, 2.0, 2.0, 2.0, 2.0, 1)


def test_runs_that_never_ended_are_counted_and_not_averaged():
    found = spread([1.0, None, 3.0])
    assert found is not None
    assert (found.median, found.count, found.missing) == (2.0, 2, 1)
    assert say(found) == "2.00 (1.50–2.50; 1.00–3.00; 1 of 3 never ended)"


def test_no_run_that_ended_gives_no_number():
    assert spread([None, None]) is None
    assert say(None) == "none"


def test_ratios_are_taken_within_a_round():
    assert ratios([1.0, 4.0, None, 2.0], [2.0, 2.0, 1.0, None]) == [pytest.approx(0.5), pytest.approx(2.0), None, None]
