"""The efficiency at N nodes, predicted from one node and the network: examples worked by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumbeat.core.prediction import (
    NetworkSpeed,
    ScalingLimit,
    StepProfile,
    calibrated,
    describe_limit,
    largest_efficient,
    parse_network,
    parse_size,
    parse_time,
    predict,
    sync_s,
)
from tests.support.messages import Messages

pytestmark = pytest.mark.feature("B2")

GIGABIT = NetworkSpeed(1e9, 0.0)
MIB = 1 << 20


def test_ring_of_two_sends_all_gradients_once_and_of_four_one_and_a_half_times():
    assert sync_s(100e6, GIGABIT, 1) == 0
    assert sync_s(100e6, GIGABIT, 2) == pytest.approx(0.8)
    assert sync_s(100e6, GIGABIT, 4) == pytest.approx(1.2)
    assert sync_s(100e6, GIGABIT, 2, ranks_per_node=2) == pytest.approx(1.2)


def test_each_step_of_each_bucket_waits_for_half_a_round_trip():
    slow = NetworkSpeed(1e9, 0.010)
    assert sync_s(50 * MIB, slow, 3) - sync_s(50 * MIB, GIGABIT, 3) == pytest.approx(2 * 2 * 0.005 * 2)


def test_small_gradients_hide_behind_nothing():
    one = predict(StepProfile(0.4, 12.5e6), GIGABIT, 2)
    assert one.exposed_s == pytest.approx(0.1)
    assert one.efficiency == pytest.approx(0.8)
    assert one.limit is ScalingLimit.COMPUTE


def test_large_gradients_hide_behind_half_of_the_computation():
    # 100 MiB take 0.839 s; 25 MiB of them (0.210 s) come last, of the rest 0.5 s are hidden.
    one = predict(StepProfile(1.0, 100 * MIB), GIGABIT, 2)
    assert one.sync_s == pytest.approx(0.839, abs=0.001)
    assert one.exposed_s == pytest.approx(0.2097 + 0.629 - 0.5, abs=0.001)
    assert predict(StepProfile(4.0, 100 * MIB), GIGABIT, 2).exposed_s == pytest.approx(0.2097, abs=0.001)


def test_wait_for_data_hides_no_gradients_and_can_be_the_limit(messages: Messages):
    profile = StepProfile(1.0, 10e6, data_s=0.7)
    one = predict(profile, NetworkSpeed(10e9, 0), 8)
    assert (one.limit, one.ranks) == (ScalingLimit.DATA, 8)
    messages.check(describe_limit(one, profile))


def test_exposed_part_of_sync_is_named_as_the_limit(messages: Messages):
    profile = StepProfile(0.1, 100e6)
    one = predict(profile, GIGABIT, 4)
    assert one.limit is ScalingLimit.SYNC
    messages.check(describe_limit(one, profile))


def test_cost_of_averaging_beside_the_network_is_listed_separately():
    profile = calibrated(StepProfile(0.1, 12.5e6), GIGABIT, 0.25)
    expected = "sync: 100 ms of the 100 ms that gradients travel aren't hidden; averaging takes 50 ms more"
    assert describe_limit(predict(profile, GIGABIT, 2), profile) == expected


def test_efficiency_of_one_node_is_1():
    assert predict(StepProfile(0.3, 1e9, extra_s=1), GIGABIT, 1).efficiency == 1


@pytest.mark.parametrize("step_of_two_s", [1.05, 1.25, 1.6, 2.5])
def test_calibrated_profile_predicts_the_step_that_it_was_calibrated_by(step_of_two_s: float):
    profile = calibrated(StepProfile(1.0, 100 * MIB), GIGABIT, step_of_two_s)
    assert predict(profile, GIGABIT, 2).step_s == pytest.approx(step_of_two_s)


def test_calibration_keeps_what_the_network_does_not_explain():
    profile = calibrated(StepProfile(1.0, 12.5e6), NetworkSpeed(1e9, 0), 1.3)
    assert profile.extra_s == pytest.approx(0.2)
    assert predict(profile, NetworkSpeed(0.5e9, 0), 2).exposed_s == pytest.approx(0.4)


@given(st.floats(0.01, 10), st.floats(1e3, 1e10), st.floats(1e6, 1e11), st.integers(1, 500))
def test_efficiency_is_a_share_and_falls_with_more_nodes(step: float, size: float, bits: float, nodes: int):
    profile, network = StepProfile(step, size), NetworkSpeed(bits, 1e-4)
    fewer, more = predict(profile, network, nodes), predict(profile, network, nodes + 1)
    assert 0 < more.efficiency <= fewer.efficiency <= 1


def test_most_nodes_that_are_still_efficient():
    many = [predict(StepProfile(1.0, 12.5e6), NetworkSpeed(0.5e9, 0.01), nodes) for nodes in (1, 2, 4, 8, 64)]
    best = largest_efficient(many, 0.7)
    assert best is not None
    assert best.nodes == 8
    assert largest_efficient(many[4:], 0.7) is None


@pytest.mark.parametrize(
    ("text", "bits", "trip"),
    [
        ("1gbit/200us", 0.95e9, 200e-6),
        ("200mbit", 190e6, 0.0),
        ("2.5 Gbit / 1ms", 2.375e9, 1e-3),
        ("1gbit/s", 0.95e9, 0.0),
        ("10 Gbit/s/100us", 9.5e9, 1e-4),
        ("100 Mbit/s / 1 ms", 95e6, 1e-3),
        ("1Gbps/200us", 0.95e9, 2e-4),
        ("1gbit/", 0.95e9, 0.0),
    ],
)
def test_network_is_read_with_what_tcp_carries_of_it(text: str, bits: float, trip: float):
    assert parse_network(text) == NetworkSpeed(pytest.approx(bits), pytest.approx(trip))


def test_times_and_sizes_are_read_and_others_refused():
    assert [parse_time(one) for one in ("420ms", "1.5s", "200us")] == pytest.approx([0.42, 1.5, 2e-4])
    assert [parse_time(one) for one in ("200\N{MICRO SIGN}s", "200\N{GREEK SMALL LETTER MU}s")] == pytest.approx(
        [2e-4, 2e-4]
    )
    assert [parse_size(one) for one in ("100MB", "1.5GiB", "512kb", "9B")] == [1e8, 1.5 * 2**30, 512e3, 9]
    for read, text in ((parse_time, "3 hours"), (parse_size, "100"), (parse_network, "fast"), (parse_network, "0mbit"),
                       (parse_network, "1gbit/fast"), (parse_network, "1gbit/s/s")):  # fmt: skip
        with pytest.raises(ValueError, match="write it like"):
            read(text)
