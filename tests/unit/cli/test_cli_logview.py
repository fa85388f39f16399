"""Log lines as they are printed."""

import threading

import pytest

from drumbeat.cli.follow.line_assembly import BACK_S, SILENT_S
from drumbeat.cli.follow.log_lines import LogLook, LogView, prefix_width
from drumbeat.cli.terminal.styles import Ink
from tests.unit.cli.samples import piece


def show(look: LogLook, *pieces: tuple[str, int] | tuple[str, int, int]) -> list[str]:
    view = LogView(look)
    shown: list[str] = []
    for text, rank, *round_ in pieces:
        each = piece(text, rank, round_=round_[0] if round_ else 1)
        shown += view.take(each, 0.0)
    return shown + view.end()


@pytest.mark.feature("M1")
def test_every_line_has_node_and_rank_before_it():
    assert show(LogLook(width=4), ("a\nb\n", 0), ("c", 3)) == [" 0:0 │ a", " 0:0 │ b", " 1:3 │ c"]


@pytest.mark.feature("M1")
def test_nodes_own_lines_have_its_name_and_align_with_those_of_ranks():
    shown = show(LogLook(), ("collecting\n", -1), ("step 1\n", 0))
    assert shown == ["0:node │ collecting", "   0:0 │ step 1"]
    assert show(LogLook(is_raw=True), ("collecting\n", -1)) == ["collecting"]


@pytest.mark.feature("M1")
def test_a_nodes_line_folds_with_those_of_ranks():
    assert show(LogLook(is_collapsed=True), ("hi\n", -1), ("hi\n", 0)) == ["0:node,0:0 ×2 │ hi"]


def test_every_round_but_the_first_is_marked():
    shown = show(LogLook(), ("a\n", 0), ("b\n", 0, 2), ("c\n", 1, 2))
    assert shown == ["0:0 │ a", "── attempt 1, round 2 ──", "0:0 │ b", "0:1 │ c"]


def test_raw_lines_are_as_they_were_written():
    assert show(LogLook(is_raw=True), ("\x1b[2Ja\rb\n", 0), ("c\n", 1, 2)) == ["\x1b[2Ja\rb", "c"]


@pytest.mark.feature("M1")
def test_collapsed_lines():
    shown = show(LogLook(is_collapsed=True), ("hi\n", 0), ("hi\n", 1), ("hi\nx\n", 2))
    assert shown == ["0:0,0:1,1:2 ×3 │ hi", "1:2 │ x"]


def test_folds_end_with_their_round():
    shown = show(LogLook(is_collapsed=True), ("hi\n", 0), ("hi\n", 0, 2))
    assert shown == ["0:0 │ hi", "── attempt 1, round 2 ──", "0:0 │ hi"]


def test_rank_has_its_colour_and_a_lines_own_colours_end_with_the_line():
    shown = show(LogLook(Ink(is_on=True)), ("\x1b[31mred\n", 0), ("b\n", 1))
    assert shown == ["\x1b[36m0:0 │\x1b[0m \x1b[31mred\x1b[0m", "\x1b[33m0:1 │\x1b[0m b"]


def test_collapsed_and_unfinished_lines_are_shown_after_silence():
    view = LogView(LogLook(is_collapsed=True))
    each = piece("hi\nunfinished", 0)
    assert view.take(each, 0.0) == []
    assert view.due(SILENT_S) == ["0:0 │ hi"]
    assert view.due(SILENT_S * 2) == ["0:0 │ unfinished"]


@pytest.mark.feature("M1")
def test_line_cut_off_by_a_killed_server_is_shown_whole():
    away = threading.Event()
    view = LogView(LogLook(), away)
    assert view.take(piece("165", 0), 0.0) == []
    away.set()  # It came back while what it had sent before was still being printed.
    assert view.due(60.0) == []
    assert view.due(60.0 + SILENT_S) == [], "its agent looks for the new server"
    assert view.take(piece("669\n", 0), 61.0) == ["0:0 │ 165669"]
    assert view.take(piece("Go on? ", 0), 62.0) == []
    assert view.due(60.0 + BACK_S + SILENT_S) == ["0:0 │ Go on? "]


@pytest.mark.parametrize(("nodes", "ranks", "width"), [(1, 1, 3), (2, 4, 3), (3, 12, 4), (12, 96, 5), (0, 0, 3)])
def test_prefixes_are_as_wide_as_the_widest(nodes: int, ranks: int, width: int):
    assert prefix_width(nodes, ranks) == width
