"""How many replicas a deployment should have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumbeat.core.serving.scaling import (
    LOOKS_BEFORE_SHRINKING,
    LoadLook,
    ScalingRule,
    needed_instances,
    wanted_instances,
)

RULE = ScalingRule(1, 10, 70, concurrency=1)


@pytest.mark.parametrize(
    ("busy", "waiting", "concurrency", "needed"),
    [(0, 0, 1, 1), (1, 0, 1, 2), (7, 0, 1, 10), (0, 3, 1, 5), (7, 7, 2, 10), (7, 0, 10, 1), (8, 0, 10, 2),
     (99, 9, 1, 10)],
)  # fmt: skip
def test_need_is_the_load_over_the_target(busy: int, waiting: int, concurrency: int, needed: int):
    rule = ScalingRule(1, 10, 70, concurrency)
    assert needed_instances(rule, LoadLook(busy, waiting)) == needed


def test_more_replicas_are_wanted_at_once():
    wanted = wanted_instances(RULE, 2, [LoadLook(0, 0)] * 30 + [LoadLook(2, 2)])
    assert wanted.count == 6
    assert wanted.sentence == "6 instances instead of 2: 2 requests run and 2 wait: 200 % of 2 permits, aim 70 %"


def test_fewer_are_wanted_when_no_recent_look_needed_more():
    quiet, peak = LoadLook(1, 0), LoadLook(4, 0)
    assert wanted_instances(RULE, 6, [quiet] * (LOOKS_BEFORE_SHRINKING - 1)).count == 6
    assert wanted_instances(RULE, 6, [quiet] * LOOKS_BEFORE_SHRINKING).count == 2
    assert wanted_instances(RULE, 6, [peak] + [quiet] * (LOOKS_BEFORE_SHRINKING - 1)).count == 6
    assert wanted_instances(RULE, 8, [peak] + [quiet] * (LOOKS_BEFORE_SHRINKING - 1)).count == 6
    assert wanted_instances(RULE, 8, [peak] + [quiet] * LOOKS_BEFORE_SHRINKING).count == 2


def test_deployment_that_may_have_none_goes_to_zero_and_back():
    rule = ScalingRule(0, 3)
    assert wanted_instances(rule, 1, [LoadLook(0, 0)] * LOOKS_BEFORE_SHRINKING).count == 0
    back = wanted_instances(rule, 0, [LoadLook(0, 1)])
    assert (back.count, back.sentence) == (2, "2 instances instead of 0: 1 requests wait and there is no instance")


def test_limits_hold_whatever_was_wanted_before():
    assert wanted_instances(ScalingRule(2, 4), 1, [LoadLook(0, 0)]).count == 2
    assert wanted_instances(ScalingRule(2, 4), 9, []).count == 4
    assert wanted_instances(RULE, 3, []).sentence == "3 instances stay: the load hasn't been looked at yet"


@given(
    limits=st.tuples(st.integers(0, 5), st.integers(0, 50)), target=st.integers(1, 100), concurrency=st.integers(1, 8),
    current=st.integers(0, 60), loads=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 400)), max_size=30),
)  # fmt: skip
def test_wanted_number_is_within_limits_and_enough_for_the_load(
    limits: tuple[int, int], target: int, concurrency: int, current: int, loads: list[tuple[int, int]]
):
    rule = ScalingRule(limits[0], sum(limits), target, concurrency)
    looks = [LoadLook(*load) for load in loads]
    count = wanted_instances(rule, current, looks).count
    assert rule.min_instances <= count <= rule.max_instances
    if looks and count < rule.max_instances:
        in_house = looks[-1].busy + looks[-1].waiting
        assert in_house * 100 <= target * concurrency * count or count == rule.min_instances == 0 == in_house
