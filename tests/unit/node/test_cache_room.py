"""Who makes way in the cache, what is refused, and what waits: pure."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumbeat.node.inputs.cache.eviction import Held, Pin, in_words, judge
from drumbeat.node.inputs.cache.files import CachedFile

pytestmark = pytest.mark.feature("D5")


def held(*kept: tuple[str, int], free: int = 1000, bound: int = 100, **parts: int) -> Held:
    """kept: oldest use first."""
    return Held([CachedFile(name, size, at) for at, (name, size) in enumerate(kept)], parts, free, bound)


def test_nothing_makes_way_while_there_is_room():
    assert judge({"new": 40}, [], held(("old", 60))) == judge({}, [], held())


def test_the_longest_unused_makes_way_and_no_more_than_needed():
    verdict = judge({"new": 40}, [], held(("a", 30), ("b", 30), ("c", 30)))
    assert [one.name for one in verdict.victims] == ["a"]
    verdict = judge({"new": 41}, [], held(("a", 30), ("b", 30), ("c", 30)))
    assert [one.name for one in verdict.victims] == ["a", "b"]


def test_what_is_used_or_wanted_never_makes_way():
    pins = [Pin("other", "/r", {"a": 30})]
    verdict = judge({"b": 30, "new": 40}, pins, held(("a", 30), ("b", 30), ("c", 30)))
    assert [one.name for one in verdict.victims] == ["c"]


def test_what_others_have_still_to_fetch_counts():
    pins = [Pin("other", "/r", {"theirs": 50})]
    assert [one.name for one in judge({"new": 50}, pins, held(("a", 30))).victims] == ["a"]


def test_a_file_that_two_want_counts_once():
    assert judge({"same": 100}, [Pin("other", "/r", {"same": 100})], held()).waits_for == ""


def test_parts_that_nobody_wants_go_first():
    verdict = judge({"new": 40}, [], held(("a", 60), left=30))
    assert (verdict.victims, verdict.loose_parts) == ((), ("left",))


def test_more_than_the_cache_may_hold_is_refused_with_both_sizes():
    said = judge({"new": 2_000_000_000}, [], held(bound=1_500_000)).refused
    assert said == "2.0 GB of inputs are more than the cache may hold, 1.5 MB"


def test_more_than_the_disk_has_is_refused_with_both_sizes():
    said = judge({"new": 90}, [], held(("a", 5), free=10)).refused
    assert said == "90 bytes are still to be fetched, and the disk has room for 15 bytes"


def test_what_has_come_already_needs_no_room_on_the_disk():
    assert judge({"new": 90}, [], held(free=20, new=75)).refused == ""


def test_others_files_are_waited_for_by_their_names():
    said = judge({"new": 60}, [Pin("b", "/2", {"y": 30}), Pin("a", "/1", {"x": 30})], held(("x", 30), ("y", 30)))
    assert said.waits_for == "the cache is full: 60 bytes of it are in use by a, b"


SIZES = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 50), max_size=5)


@given(SIZES, SIZES, SIZES, st.integers(0, 200), st.integers(0, 200))
def test_whatever_there_is_room_is_real(
    wanted: dict[str, int], pinned: dict[str, int], there: dict[str, int], free: int, bound: int
):
    pins = [Pin("other", "/r", {**pinned, **{k: v for k, v in wanted.items() if k in pinned}})]
    state = held(*there.items(), free=free, bound=bound)
    sizes = {**there, **wanted, **pins[0].files}
    state = held(*((name, sizes[name]) for name in there), free=free, bound=bound)
    wanted = {name: sizes[name] for name in wanted}
    verdict = judge(wanted, pins, state)
    gone = {one.name for one in verdict.victims}
    assert not gone & (wanted.keys() | pins[0].files.keys())
    if verdict.refused or verdict.waits_for:
        assert not gone
        return
    after = {*there, *wanted, *pins[0].files} - gone
    if {*wanted, *pins[0].files} - there.keys():
        assert sum(sizes[name] for name in after) <= bound
        assert sum(sizes[name] for name in after - there.keys()) <= free + sum(sizes[name] for name in gone)


@pytest.mark.parametrize(
    ("size", "words"), [(0, "0 bytes"), (1000, "1.0 kB"), (4_550_000_000, "4.5 GB"), (3 * 10**12, "3.0 TB")]
)
def test_sizes_in_words(size: int, words: str):
    assert in_words(size) == words
