"""A hostile log can colour its own line, and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumbeat.cli.terminal.untrusted_text import make_safe, safe_lines


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, with\ttab and ünïcode ✓", "plain, with\ttab and ünïcode ✓"),
        ("\x1b[2J\x1b[H", "\\x1b[2J\\x1b[H"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("\x1b]52;c;ZXZpbA==\x1b\\", "\\x1b]52;c;ZXZpbA==\\x1b\\"),
        ("a\x9b31mb", "a\\x9b31mb"),
        ("over\x08\x08write\x7f", "over\\x08\\x08write\\x7f"),
        ("gpj.\u202eexe", "gpj.\\u202eexe"),
        ("half \udc80", "half \\udc80"),
        ("\x1b[31mred\x1b[0m", "red"),
    ],
)
def test_control_characters_are_spelled_out(text: str, shown: str):
    assert make_safe(text) == shown


def test_colours_stay_where_there_is_colour_and_end_with_the_line():
    assert make_safe("\x1b[1;31mred\x1b[2K", colour=True) == "\x1b[1;31mred\\x1b[2K\x1b[0m"


@given(st.text())
def test_cursor_movements_are_escaped(text: str):
    shown = make_safe(text)
    assert all(character.isprintable() or character.isspace() or ord(character) > 0x9F for character in shown)
    assert not set(shown) & {"\x1b", "\r", "\n", "\x9b", "\x07", "\x08"}
    shown.encode()


def test_last_lines_of_a_text_are_returned():
    assert safe_lines("a\nb\r\n 5%\r10%\nc\n", last=3) == ["b", "10%", "c"]
    assert safe_lines("\n", last=3) == []
