"""Pieces of logs become lines, wherever they were cut."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumbeat.cli.follow.line_assembly import MAX_LINE_LENGTH, SILENT_S, LineAssembler, LogLine
from drumbeat.model.logs import LogName

ZERO, ONE = LogName(1, 1, 0, 0), LogName(1, 1, 0, 1)


def feed_all(lines: LineAssembler, *pieces: str) -> list[str]:
    return [line.text for piece in pieces for line in lines.feed(ZERO, piece, 0.0)]


def test_split_line_is_joined():
    assert feed_all(LineAssembler(), "ep", "och 1\nepo", "ch 2\n") == ["epoch 1", "epoch 2"]


def test_ranks_do_not_mix():
    lines = LineAssembler()
    assert lines.feed(ZERO, "from ", 0.0) == []
    assert lines.feed(ONE, "from 1\n", 0.0) == [LogLine(ONE, "from 1")]
    assert lines.feed(ZERO, "0\n", 0.0) == [LogLine(ZERO, "from 0")]


def test_unfinished_line_is_shown_after_silence_and_not_repeated_at_its_end():
    lines = LineAssembler()
    assert lines.feed(ZERO, "waiting …", 0.0) == []
    assert lines.silent(SILENT_S - 0.01) == []
    assert lines.silent(SILENT_S) == [LogLine(ZERO, "waiting …")]
    assert lines.silent(9.0) == []
    assert lines.feed(ZERO, "\nnext\n", 9.0) == [LogLine(ZERO, "next")]


def test_rest_of_a_line_shown_in_part_is_a_line_of_its_own():
    lines = LineAssembler()
    lines.feed(ZERO, "loading", 0.0)
    lines.silent(1.0)
    assert lines.feed(ZERO, " done\n\nafter\n", 1.0) == [
        LogLine(ZERO, " done"),
        LogLine(ZERO, ""),
        LogLine(ZERO, "after"),
    ]


def test_empty_line_is_kept():
    assert feed_all(LineAssembler(), "a\n\nb\n") == ["a", "", "b"]


def test_unfinished_line_is_shown_at_the_end():
    lines = LineAssembler()
    lines.feed(ZERO, "Killed", 0.0)
    assert lines.end() == [LogLine(ZERO, "Killed")]
    assert lines.end() == []


@pytest.mark.parametrize(
    ("pieces", "shown"),
    [
        (["  0%\r 50%\r100%\n"], ["100%"]),
        (["  0%\r", " 50%\r", "100%\n"], ["100%"]),
        (["  0%\r", " 50%\r", "\n"], [" 50%"]),
        (["windows\r\n", "ends\r", "\n"], ["windows", "ends"]),
    ],
)
def test_only_last_state_of_a_progress_bar_is_shown(pieces: list[str], shown: list[str]):
    assert feed_all(LineAssembler(), *pieces) == shown


def test_a_progress_bar_that_pauses_shows_each_pause_once():
    lines = LineAssembler()
    lines.feed(ZERO, " 0%\r10%", 0.0)
    assert lines.silent(1.0) == [LogLine(ZERO, "10%")]
    lines.feed(ZERO, "\r20%", 1.0)
    assert lines.silent(2.0) == [LogLine(ZERO, "20%")]
    assert lines.feed(ZERO, "\n", 2.0) == []


def test_raw_lines_are_never_broken():
    lines = LineAssembler(raw=True)
    assert lines.feed(ZERO, "a" * 100_000, 0.0) == []
    assert lines.silent(3600.0) == []
    assert lines.feed(ZERO, "b\n", 3600.0) == [LogLine(ZERO, "a" * 100_000 + "b")]


def test_raw_lines_keep_their_carriage_returns():
    assert feed_all(LineAssembler(raw=True), " 0%\r1", "00%\r\n") == [" 0%\r100%\r"]


def test_a_line_without_end_comes_in_pieces():
    shown = feed_all(LineAssembler(), "x" * (MAX_LINE_LENGTH + 5), "y" * 3 + "\n")
    assert [len(text) for text in shown] == [MAX_LINE_LENGTH, 8]


def test_a_progress_bar_that_never_ends_its_line_is_not_kept_whole():
    lines = LineAssembler()
    for step in range(MAX_LINE_LENGTH):
        assert lines.feed(ZERO, f"{step:>9}\r", 0.0) == []
    assert lines.end() == [LogLine(ZERO, f"{MAX_LINE_LENGTH - 1:>9}")]


@given(text=st.text(alphabet="ab\n\r"), cuts=st.lists(st.integers(0, 50)))
def test_result_is_independent_of_where_pieces_are_cut(text: str, cuts: list[int]):
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[start:end] for start, end in pairwise(places)]
    whole, cut = LineAssembler(), LineAssembler()
    assert feed_all(cut, *pieces) == feed_all(whole, text)
    assert cut.end() == whole.end()
