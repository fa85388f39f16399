import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumbeat.server.jobs.event_routes import place_behind
from drumbeat.server.jobs.file_routes import ByteRange, parse_range


@pytest.mark.parametrize(
    ("wanted", "cut"),
    [
        ("bytes=0-0", ByteRange(0, 1)),
        ("bytes=2-", ByteRange(2, 10)),
        ("bytes=2-4", ByteRange(2, 5)),
        ("bytes=2-400", ByteRange(2, 10)),
        ("bytes=-3", ByteRange(7, 10)),
        ("bytes=-30", ByteRange(0, 10)),
        ("bytes=4-2", None),
        ("bytes=1-2,4-5", None),
        ("bytes=", None),
        ("words=1-2", None),
    ],
)
def test_a_range_is_read_as_rfc_9110_says(wanted: str, cut: ByteRange | None) -> None:
    assert parse_range(wanted, 10) == cut


@given(st.text(max_size=30) | st.from_regex(r"bytes=\d{0,20}-\d{0,20}", fullmatch=True), st.integers(0, 100))
def test_range_lies_in_the_file_or_is_reported_as_beyond_it(wanted: str, size: int) -> None:
    cut = parse_range(wanted, size)
    assert cut is None or cut.is_beyond(size) or 0 <= cut.start <= cut.end <= size


@given(st.integers(0, 10**18), st.integers(0, 10**9))
def test_the_id_of_an_event_is_read_back(position: int, story: int) -> None:
    assert place_behind(f"{position}.{story}", None) == (position, story)
