"""The global batch, the learning rate that belongs to it, and the sentence that explains both."""

from __future__ import annotations

import pytest

from drumbeat.model.errors import RefusedError
from drumbeat.train.batch_scaling import compute_scaling

pytestmark = pytest.mark.feature("T7")


@pytest.mark.parametrize(
    ("rule", "lr", "sentence"),
    [
        (
            "linear",
            0.004,
            "global batch 256 = 4 ranks × 64; learning rate 0.004 = 0.001 × 4 by the linear rule (Goyal et al. 2017)",
        ),
        ("sqrt", 0.002, "0.002 = 0.001 × 2 by the square-root rule (Krizhevsky 2014)"),
        ("lars", 0.004, "by the linear rule with LARS (You et al. 2017)"),
        ("none", 0.001, "global batch 256 = 4 ranks × 64; learning rate 0.001, as given"),
    ],
)
def test_rate_follows_the_rule_and_is_explained(rule: str, lr: float, sentence: str):
    scaling = compute_scaling(0.001, world_size=4, batch_per_rank=64, rule=rule)
    assert scaling.lr == pytest.approx(lr)
    assert sentence in str(scaling)


def test_base_batch_and_global_batch_count_as_given():
    scaling = compute_scaling(0.1, world_size=8, global_batch=512, base_batch=256, warmup_steps=10)
    assert (scaling.batch_per_rank, scaling.lr) == (64, pytest.approx(0.2))
    assert str(scaling).endswith("512 samples a step against 256, after a warm-up of 10 steps")
    assert scaling.parameters() == {
        "world_size": 8, "batch_per_rank": 64, "global_batch": 512, "base_learning_rate": 0.1, "base_batch": 256,
        "learning_rate": pytest.approx(0.2), "learning_rate_rule": "linear", "warmup_steps": 10,
    }  # fmt: skip


def test_rate_of_a_global_batch_is_the_same_with_any_number_of_ranks():
    scalings = [compute_scaling(0.1, world_size=size, global_batch=8, warmup_steps=10) for size in (1, 2, 4)]
    assert [(one.batch_per_rank, one.lr) for one in scalings] == [(8, 0.1), (4, 0.1), (2, 0.1)]
    assert {one.factor(step) for one in scalings for step in range(12)} == {1.0}
    assert str(scalings[2]).startswith("global batch 8 = 4 ranks × 2; learning rate 0.1 = 0.1 × 1 by the linear rule")


@pytest.mark.parametrize(
    ("rule", "rates"), [("linear", [0.175, 0.25, 0.325, 0.4, 0.4]), ("lars", [0.1, 0.2, 0.3, 0.4, 0.4])]
)
def test_warm_up_rises_in_a_line(rule: str, rates: list[float]):
    scaling = compute_scaling(0.1, world_size=4, batch_per_rank=1, rule=rule, warmup_steps=4)
    assert [scaling.lr * scaling.factor(step) for step in range(5)] == pytest.approx(rates)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"batch_per_rank": 8, "rule": "cubic"}, "there is no rule 'cubic'. Choose one of linear, sqrt, lars, none"),
        ({}, "the batch is given twice or not at all"),
        ({"batch_per_rank": 8, "global_batch": 24}, "the batch is given twice"),
        ({"batch_per_rank": -4, "global_batch": 9}, "a batch is negative: batch_per_rank -4, global_batch 9. Give one"),
        ({"batch_per_rank": 4, "global_batch": -9}, "a batch is negative"),
        ({"global_batch": 100}, "a global batch of 100 doesn't split evenly over 3 ranks. Use a multiple of 3"),
        ({"batch_per_rank": 8, "base_batch": -1}, "not a positive number among base_lr 0.1, base_batch -1"),
    ],
)
def test_invalid_scaling_settings_are_refused(settings: dict[str, object], sentence: str):
    with pytest.raises(RefusedError) as caught:
        compute_scaling(0.1, world_size=3, **settings)  # type: ignore[arg-type]
    assert sentence in str(caught.value)
