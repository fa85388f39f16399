"""Random sampling: values by seed and number, and Sobol's sequence."""

from __future__ import annotations

import math
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumbeat.core.sweeps import sobol_sampling
from drumbeat.core.sweeps.random_sampling import draw, paths, quantile, stepped
from drumbeat.jobfile import (
    Choice,
    LogNormal,
    LogUniform,
    Normal,
    QLogNormal,
    QLogUniform,
    QNormal,
    QUniform,
    RandInt,
    RandomSampling,
    Uniform,
)

pytestmark = pytest.mark.feature("S1")
RANDOM, SOBOL = RandomSampling(), RandomSampling(rule="sobol")
FUNCTIONS = {
    "choice": Choice(["a", 1, 2.5, True]),
    "randint": RandInt(10),
    "uniform": Uniform(-1, 3),
    "loguniform": LogUniform(-6, -1),
    "quniform": QUniform(0, 100, 8),
    "qloguniform": QLogUniform(0, 5, 2),
    "normal": Normal(10, 3),
    "lognormal": LogNormal(0, 1),
    "qnormal": QNormal(0, 1, 0.1),
    "qlognormal": QLogNormal(2, 1, 5),
}
NESTED = {
    "net": Choice(
        [
            {"kind": "cnn", "width": QUniform(8, 64, 8), "head": Choice([{"heads": RandInt(4)}, "none"])},
            {"kind": "mlp", "depth": 3},
        ]
    ),
    "lr": LogUniform(-6, -1),
}


@pytest.mark.parametrize(
    ("function", "at", "expected"),
    [
        (RandInt(4), 0.74, 2),
        (Uniform(2, 4), 0.25, 2.5),
        (LogUniform(-2, 2), 0.5, 1.0),
        (QUniform(0, 100, 8), 0.5, 48),
        (QUniform(0, 1, 0.1), 0.301, 0.3),
        (QLogUniform(0, 4, 2), 0.5, 8),
        (Normal(10, 3), 0.5, 10.0),
        (LogNormal(1, 5), 0.5, math.e),
        (QNormal(10, 3, 4), 0.5, 8),
        (QLogNormal(3, 1, 5), 0.5, 20),
    ],
)
def test_quantile_of_each_function(function, at, expected):
    value = quantile(function, at)
    assert value == pytest.approx(expected)
    assert type(value) is type(expected)


def test_logarithms_have_the_base_of_the_sampling():
    assert quantile(LogUniform(-3, -1), 0.5, base=10) == pytest.approx(0.01)
    space = {"lr": LogUniform(-3, -1)}
    assert 1e-3 <= draw(space, RandomSampling(logbase=10), 7, 0)["lr"] <= 1e-1
    assert draw(space, RandomSampling(logbase="e"), 7, 0) == draw(space, RANDOM, 7, 0)


def test_value_beyond_a_double_is_the_largest_one():
    assert math.isfinite(quantile(LogUniform(0, 5000), 0.9))
    assert math.isfinite(quantile(QLogUniform(0, 5000, 0.5), 0.9))


@pytest.mark.parametrize("sampling", [RANDOM, SOBOL])
def test_trial_depends_on_seed_and_number_alone(sampling):
    trials = [draw(FUNCTIONS | NESTED, sampling, 3, number) for number in range(20)]
    assert trials == [draw(FUNCTIONS | NESTED, sampling, 3, number) for number in range(20)]
    assert trials[5:] != [draw(FUNCTIONS | NESTED, sampling, 4, number) for number in range(5, 20)]
    assert len({str(trial) for trial in trials}) == 20


def test_values_for_a_seed_stay_the_same_in_every_version():
    space = {"lr": Uniform(0, 1), "n": RandInt(100)}
    assert draw(space, RANDOM, 42, 3) == {"lr": pytest.approx(0.6805186024261426), "n": 90}
    assert draw(space, SOBOL, 42, 3) == {"lr": pytest.approx(0.4018889873987064), "n": 4}


def test_other_parameters_keep_their_values_when_one_is_added():
    one, two = {"a": Uniform(0, 1)}, {"b": Uniform(0, 1), "a": Uniform(0, 1)}
    assert draw(one, RANDOM, 1, 2)["a"] == draw(two, RANDOM, 1, 2)["a"]


@given(st.integers(0, 2**40), st.integers(0, 10**6), st.sampled_from([RANDOM, SOBOL]))
def test_every_value_is_one_that_its_function_gives(seed, number, sampling):
    values = draw(FUNCTIONS | NESTED, sampling, seed, number)
    assert values["choice"] in FUNCTIONS["choice"].values
    assert values["randint"] in range(10)
    assert -1 <= values["uniform"] <= 3
    assert math.exp(-6) <= values["loguniform"] <= math.exp(-1)
    assert values["quniform"] % 8 == values["qloguniform"] % 2 == values["qlognormal"] % 5 == 0
    assert isinstance(values["quniform"], int)
    assert math.isfinite(values["normal"])
    assert values["lognormal"] > 0
    net = values["net"]
    assert net == {"kind": "mlp", "depth": 3} or (net["kind"], [*net]) == ("cnn", ["kind", "width", "head"])


@pytest.mark.parametrize("sampling", [RANDOM, SOBOL])
def test_draws_are_distributed_as_their_function_says(sampling):
    count = 2048
    draws = [draw({"u": Uniform(0, 1), "n": Normal(5, 2)}, sampling, 9, number) for number in range(count)]
    uniform, normal = sorted(d["u"] for d in draws), sorted(NormalDist(5, 2).cdf(d["n"]) for d in draws)
    for ordered in (uniform, normal):
        distance = max(abs(value - (place + 0.5) / count) for place, value in enumerate(ordered))
        assert distance < (0.002 if sampling is SOBOL else 0.04)


def test_steps_are_whole_where_the_step_is():
    assert [stepped(value, 8.0) for value in (11.9, 12.1, -12.1)] == [8, 16, -16]
    assert stepped(0.31, 0.1) == 0.3
    assert stepped(1e308, 1e-9) == 1e308


def test_path_of_a_function_has_the_branches_above_it():
    assert [*paths(NESTED)] == ["net", "net.0.width", "net.0.head", "net.0.head.0.heads", "lr"]


def test_first_sobol_points():
    points = [
        [sobol_sampling.coordinate(number, axis) / 2**sobol_sampling.BITS for axis in range(3)] for number in range(8)
    ]
    assert points == [
        [0, 0, 0],
        [0.5, 0.5, 0.5],
        [0.75, 0.25, 0.25],
        [0.25, 0.75, 0.75],
        [0.375, 0.375, 0.625],
        [0.875, 0.875, 0.125],
        [0.625, 0.125, 0.875],
        [0.125, 0.625, 0.375],
    ]


@pytest.mark.parametrize("axis", range(sobol_sampling.MAX_DIMENSIONS))
def test_sobol_points_lie_in_different_parts_of_each_axis(axis):
    parts = {sobol_sampling.coordinate(number, axis) >> (sobol_sampling.BITS - 8) for number in range(256)}
    assert len(parts) == 256
