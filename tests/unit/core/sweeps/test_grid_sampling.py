"""Grid sampling."""

from __future__ import annotations

import pytest

from drumbeat.core.sweeps.grid_sampling import combination, count
from drumbeat.jobfile import Choice

pytestmark = pytest.mark.feature("S1")


def every_combination(space):
    return [combination(space, number) for number in range(count(space))]


def test_combinations_come_in_the_order_written():
    space = {"lr": Choice([0.1, 0.01]), "batch": Choice([32, 64])}
    assert count(space) == 4
    assert [*every_combination(space)] == [
        {"lr": 0.1, "batch": 32},
        {"lr": 0.1, "batch": 64},
        {"lr": 0.01, "batch": 32},
        {"lr": 0.01, "batch": 64},
    ]


def test_branch_has_the_combinations_of_its_own_choices():
    net = Choice([{"kind": "cnn", "width": Choice([8, {"wide": Choice([1, 2])}])}, "mlp", {"kind": "rnn"}])
    space = {"net": net, "lr": Choice([1, 2])}
    assert count(space) == 10
    assert [each["net"] for each in every_combination(space)][::2] == [
        {"kind": "cnn", "width": 8},
        {"kind": "cnn", "width": {"wide": 1}},
        {"kind": "cnn", "width": {"wide": 2}},
        "mlp",
        {"kind": "rnn"},
    ]


@pytest.mark.parametrize("number", [-1, 2])
def test_number_beyond_the_grid_has_no_combination(number):
    with pytest.raises(IndexError):
        combination({"x": Choice([1, 2])}, number)
