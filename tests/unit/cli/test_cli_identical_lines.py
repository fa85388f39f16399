"""Identical lines fold into one; no line is lost, and none changes its place among its rank's own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumbeat.cli.follow.identical_lines import NEAR_LINES, NEAR_S, LineFolder, collapse
from drumbeat.cli.follow.line_assembly import LogLine
from drumbeat.cli.follow.log_lines import format_prefix, name_ranks
from drumbeat.model.logs import LogName


def at(rank: int, *, per_node: int = 2, round_: int = 1) -> LogName:
    return LogName(1, round_, rank // per_node, rank)


def fold(*pairs: tuple[int, str]) -> list[tuple[str, str]]:
    return [(format_prefix(each), each.text) for each in collapse(LogLine(at(rank), text) for rank, text in pairs)]


@pytest.mark.feature("M1")
def test_identical_lines_of_ranks_become_one():
    assert fold((0, "hi"), (1, "hi"), (2, "hi"), (0, "step")) == [("0:0,0:1,1:2 ×3", "hi"), ("0:0", "step")]


def test_repeats_of_one_rank_become_one():
    assert fold((0, "retry"), (0, "retry"), (0, "retry"), (0, "ok")) == [("0:0 ×3", "retry"), ("0:0", "ok")]


def test_ranks_that_say_the_same_in_another_order_keep_their_own_order():
    assert fold((0, "a"), (0, "b"), (1, "b"), (1, "a")) == [("0:0", "a"), ("0:0,0:1 ×2", "b"), ("0:1", "a")]


def test_lines_far_apart_are_not_folded():
    between = [(0, f"step {n}") for n in range(NEAR_LINES + 1)]
    assert fold((0, "hi"), *between, (1, "hi"))[-1] == ("0:1", "hi")


def test_rounds_are_not_folded_together():
    lines = [LogLine(at(0), "hi"), LogLine(at(0, round_=2), "hi")]
    assert [each.count for each in collapse(lines)] == [1, 1]


def test_while_following_a_fold_waits_for_other_ranks_only_so_long():
    folding = LineFolder()
    assert folding.feed(LogLine(at(0), "hi"), 0.0) == []
    assert folding.due(NEAR_S / 2) == []
    assert folding.feed(LogLine(at(1), "hi"), NEAR_S / 2) == []
    assert [format_prefix(each) for each in folding.due(NEAR_S)] == ["0:0,0:1 ×2"]
    assert folding.end() == []


@pytest.mark.parametrize(
    ("ranks", "named"),
    [([3], "1:3"), ([0, 1], "0:0,0:1"), ([5, 4], "2:4,2:5"), ([0, 3], "0:0,1:3")],
)
def test_ranks_are_named_by_node_and_rank(ranks: list[int], named: str):
    assert name_ranks(at(rank) for rank in ranks) == named


def test_many_ranks_of_a_node_are_a_range():
    assert name_ranks(at(rank, per_node=4) for rank in (0, 1, 2, 3, 4, 6, 7)) == "0:0-3,1:4,1:6,1:7"


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from("abc"))))
def test_every_rank_keeps_its_lines_and_their_order(pairs: list[tuple[int, str]]):
    folds = list(collapse(LogLine(at(rank), text) for rank, text in pairs))
    for rank in range(4):
        told = [each.text for each in folds for _ in range(each.times.get(at(rank), 0))]
        assert told == [text for one, text in pairs if one == rank]


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from("ab")), max_size=300))
def test_folding_as_lines_come_loses_none_either(pairs: list[tuple[int, str]]):
    folding, count = LineFolder(), 0
    for moment, (rank, text) in enumerate(pairs):
        now = moment * NEAR_S / 3
        count += sum(each.count for each in [*folding.feed(LogLine(at(rank), text), now), *folding.due(now)])
    assert count + sum(each.count for each in folding.end()) == len(pairs)
