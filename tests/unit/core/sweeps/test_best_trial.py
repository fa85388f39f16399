"""The best trial."""

from __future__ import annotations

import math

import pytest

from drumbeat.core.sweeps.best_trial import BestTrial, best_trial

pytestmark = pytest.mark.feature("S3")
NAN = math.nan


def test_best_reported_value_counts_rather_than_the_last():
    reports = {"s_0": [0.1, 0.9, 0.2], "s_1": [0.5, 0.6, 0.7]}
    assert best_trial("maximize", reports) == BestTrial("s_0", 0.9, 2)
    assert best_trial("minimize", reports) == BestTrial("s_0", 0.1, 1)


def test_first_of_equal_trials_is_the_best_in_any_order():
    reports = {"s_10": [1.0], "s_2": [1.0], "s_3": [0.5]}
    assert best_trial("maximize", reports) == BestTrial("s_2", 1.0, 1)


def test_trial_without_a_number_is_never_the_best():
    assert best_trial("maximize", {}) is None
    assert best_trial("maximize", {"s_0": [], "s_1": [NAN]}) is None
    assert best_trial("minimize", {"s_0": [NAN, math.inf], "s_1": [NAN]}) == BestTrial("s_0", math.inf, 2)
