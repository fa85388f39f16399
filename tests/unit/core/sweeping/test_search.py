"""The search of a sweep, and the sampling that learns nothing."""

from __future__ import annotations

import pytest

from drumbeat.core.sweeping.search import SampledTrial, Search, sample, sampling_of, search_of
from drumbeat.dialect import BayesianSampling, Choice, GridSampling, RandomSampling, Uniform, from_dict

pytestmark = pytest.mark.feature("S1")


def sweep(sampling):
    space = {"x": {"type": "choice", "values": [1, 2, 3]}}
    objective = {"goal": "minimize", "primary_metric": "loss"}
    keys = {"trial": {"command": "true"}, "sampling_algorithm": sampling, "search_space": space}
    return from_dict({"type": "sweep", **keys, "objective": objective})


@pytest.mark.parametrize(
    ("written", "sampling"),
    [
        ("random", RandomSampling()),
        ("grid", GridSampling()),
        ("bayesian", BayesianSampling()),
        ({"type": "random", "rule": "sobol"}, RandomSampling(rule="sobol")),
    ],
)
def test_sampling_is_the_one_written(written, sampling):
    assert sampling_of(sweep(written)) == sampling


def test_seed_of_the_file_comes_before_the_one_that_was_chosen():
    assert search_of(sweep("random"), 7).seed == 7
    assert search_of(sweep({"type": "random", "seed": 0}), 7).seed == 0


def test_grid_has_as_many_trials_as_combinations():
    search = search_of(sweep("grid"), 7)
    assert [values["x"] for values in sample(search, (), 2)] == [1, 2]
    assert [values["x"] for values in sample(search, [SampledTrial({"x": 1})] * 2, 5)] == [3]


def test_random_trials_depend_on_their_number_rather_than_on_the_others():
    search = Search({"x": Uniform(0, 1), "y": Choice(["a", "b"])}, RandomSampling(), "maximize", 3)
    six = sample(search, (), 6)
    assert sample(search, [SampledTrial({"x": 1, "y": "a"}, "failed")] * 4, 2) == six[4:]
