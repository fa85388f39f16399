"""Curves that a metric store keeps."""

from drumbeat.model.metrics import Point
from drumbeat.server.metrics.tables.curve_cache import CurveCache


def curve(length: int) -> list[Point]:
    return [Point("loss", 1.0, step, 0) for step in range(length)]


def test_cache_forgets_the_curves_that_were_asked_for_longest_ago():
    cache = CurveCache(max_points=10)
    cache.put("a", curve(4))
    cache.put("b", curve(4))
    assert cache.get("a") == curve(4)
    cache.put("c", curve(4))
    assert [cache.get(key) is not None for key in "abc"] == [True, False, True]


def test_cache_counts_a_curve_that_replaces_another_once():
    cache = CurveCache(max_points=10)
    for length in (9, 3, 5):
        cache.put("a", curve(length))
    cache.put("b", curve(5))
    assert (cache.get("a"), cache.get("b")) == (curve(5), curve(5))


def test_curve_longer_than_the_cache_is_not_kept():
    cache = CurveCache(max_points=10)
    cache.put("a", curve(11))
    assert cache.get("a") is None
