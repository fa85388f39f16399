"""What the router counted over time: rates, percentiles and errors of deployments."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

from drumbeat.model.request_times import BUCKETS_S, percentile_s
from drumbeat.server.endpoints.request_history import INTERVAL_S, KEPT, RequestHistory

BLUE = ("ships", "blue")


def counted(seconds: list[float], **statuses: int) -> dict[str, Any]:
    """What a router counts that answered requests in these times."""
    buckets = [0] * (len(BUCKETS_S) + 1)
    for one in seconds:
        buckets[bisect_left(BUCKETS_S, one)] += 1
    return {"statuses": {key[1:]: count for key, count in statuses.items()}, "buckets": buckets}


def test_percentiles_lie_in_the_interval_of_their_requests():
    buckets = counted([0.004] * 95 + [0.4] * 5)["buckets"]
    median, high = percentile_s(buckets, 0.5), percentile_s(buckets, 0.96)
    assert median is not None
    assert high is not None
    assert 0.0025 < median < 0.005
    assert 0.25 < high < 0.5
    assert percentile_s([0] * 16, 0.5) is None
    assert percentile_s(counted([100.0])["buckets"], 0.5) == 60.0


def test_rates_are_of_the_requests_since_the_note_before():
    history = RequestHistory()
    history.note({BLUE: counted([0.004] * 100, s200=100)}, 1000.0)
    assert history.now(BLUE).requests_per_s == 0  # Nothing is known of the time before.
    history.note({BLUE: counted([0.004] * 100 + [0.04] * 50, s200=140, s429=8, s499=2)}, 1005.0)
    now = history.now(BLUE)
    assert (now.requests_per_s, now.errors_per_s) == (10, 1.6)
    assert now.p50_ms is not None
    assert 25 < now.p50_ms < 50
    assert history.totals(BLUE) == (150, 8)
    assert history.curve(BLUE).times == (1005.0,)


def test_router_that_was_restarted_counts_from_nothing():
    history = RequestHistory()
    history.note({BLUE: counted([0.004] * 100, s200=100)}, 1000.0)
    history.note({BLUE: counted([0.004] * 20, s200=20)}, 1010.0)
    assert history.now(BLUE).requests_per_s == 2


def test_hour_is_kept_and_deployments_that_are_gone_are_forgotten():
    history = RequestHistory()
    for turn in range(KEPT + 100):
        history.note({BLUE: counted([], s200=turn)}, turn * INTERVAL_S)
        history.note({BLUE: counted([], s200=turn)}, turn * INTERVAL_S + 0.5)  # Too early to count.
    curve = history.curve(BLUE)
    assert len(curve.times) == KEPT
    assert {one.requests_per_s for one in curve.rates} == {0.2}
    history.note({}, 1e6)
    assert history.curve(BLUE).times == ()
    assert history.latest(BLUE) == {}
