"""Frames of sessions are read as they were written, however the bytes come."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumbeat.model.session_frames import IN, MAX_BYTES, SIZE, FrameReader, frame, parse_size, size_frame

KINDS = st.sampled_from([b"i", b"w", b"s", b"o", b"e", b"x"])


@given(st.lists(st.tuples(KINDS, st.binary(max_size=20)), max_size=6), st.integers(1, 7))
def test_frames_are_the_same_in_pieces_of_any_size(sent: list[tuple[bytes, bytes]], size: int):
    data, reader = b"".join(frame(*one) for one in sent), FrameReader()
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    assert [one for piece in pieces for one in reader.feed(piece)] == sent


def test_frame_that_is_too_long_is_refused():
    with pytest.raises(ValueError, match="longer than"):
        FrameReader().feed(frame(IN, bytes(MAX_BYTES + 1)))


def test_size_of_a_terminal_is_read_and_nonsense_is_refused():
    ((kind, body),) = FrameReader().feed(size_frame(50, 70_000))
    assert (kind, parse_size(body)) == (SIZE, (50, 65_535))
    with pytest.raises(ValueError, match="size"):
        parse_size(b"\0")
