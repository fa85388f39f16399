"""What jobs held, in pieces and in sums."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumbeat.core.ledger_times import Stretch
from drumbeat.core.use_times import (
    AFTER,
    DAY_US,
    MONDAY_US,
    Amounts,
    Hold,
    TimePiece,
    Window,
    add_row,
    day_rows,
    from_us,
    mean_levels,
    percentile,
    pieces,
    seconds_by_class,
    to_us,
    window,
)
from drumbeat.model.api.ledger import TimeClass

pytestmark = pytest.mark.feature("M6")

START = datetime(2026, 11, 24, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def stretch(since: float, until: float, time_class: TimeClass, attempt: int = 0) -> Stretch:
    return Stretch(at(since), at(until), time_class, attempt, 1 if attempt else 0)


def sums_of(some: list[TimePiece], busy: float | None = None) -> Amounts:
    sums = Amounts()
    for piece in some:
        sums.add(piece.part, piece.until - piece.since, piece.slots, piece.gpus, busy)
    return sums


STORY = [
    stretch(0, 10, TimeClass.QUEUE),
    stretch(10, 15, TimeClass.PROVISION, 1),
    stretch(15, 35, TimeClass.TRAIN, 1),
    stretch(35, 45, TimeClass.LOST),
    stretch(45, 50, TimeClass.QUEUE, 2),
    stretch(50, 80, TimeClass.TRAIN, 2),
    stretch(80, 82, TimeClass.STAGE, 2),
]
HOLDS = [Hold(1, 4, 2, at(10), at(38)), Hold(2, 8, 4, at(45))]


def test_held_time_is_that_of_attempts_and_of_what_they_give_back_late():
    sums = sums_of(pieces(STORY, HOLDS, at(85)))
    assert seconds_by_class(sums.wall)[TimeClass.QUEUE] == 15
    assert sums.wall_us == 82_000_000
    assert seconds_by_class(sums.gpus)[TimeClass.QUEUE] == 0, "a cluster's own queue gives nothing"
    assert seconds_by_class(sums.gpus)[TimeClass.TRAIN] == 20 * 2 + 30 * 4
    assert seconds_by_class(sums.gpus)[TimeClass.LOST] == 0, "a job that waits before its next try holds nothing"
    assert sums.gpus[AFTER] == (3 * 2 + 3 * 4) * 1_000_000
    assert seconds_by_class(sums.gpus, is_held=True)[TimeClass.STAGE] == 2 * 4 + 3 * 2 + 3 * 4
    assert sum(seconds_by_class(sums.slots, is_held=True).values()) == sums.slot_us / 1_000_000


def test_gpus_count_as_used_by_how_busy_they_were_while_ranks_worked():
    some = pieces(STORY, HOLDS, at(82))
    assert sums_of(some).busy_gpus == (20 * 2 + 30 * 4) * 1_000_000
    assert sums_of(some, 0.25).busy_gpus == (20 * 2 + 30 * 4) * 250_000


def test_an_attempt_that_ended_at_once_holds_until_it_gives_back():
    some = pieces([stretch(0, 10, TimeClass.QUEUE)], [Hold(1, 4, 2, at(10), at(12))], at(99))
    assert some[1:] == [TimePiece(to_us(at(10)), to_us(at(12)), 1, 4, 2, AFTER)]


def test_weeks_begin_on_monday_and_are_cut_at_the_ends():
    sunday = datetime(2026, 11, 29, 23, tzinfo=UTC)
    span = window(sunday, sunday + timedelta(hours=3), timedelta(weeks=1), from_monday=True)
    assert from_us(MONDAY_US).weekday() == 0
    assert [f"{from_us(span.start(one)):%Y-%m-%d}" for one in span.buckets] == ["2026-11-23", "2026-11-30"]
    cuts = list(span.cuts(to_us(sunday) - 9_000, to_us(sunday) + DAY_US))
    assert [until - since for _, since, until in cuts] == [3_600_000_000, 2 * 3_600_000_000]


def test_an_empty_window_has_a_bucket_and_no_time():
    span = window(START, START - timedelta(days=1))
    assert list(span.buckets) == [0]
    assert list(span.cuts(0, to_us(START) * 2)) == []


moments = st.integers(0, 5 * DAY_US)
some_pieces = st.lists(
    st.builds(
        lambda since, length, attempt, part: TimePiece(
            since, since + length, attempt, 3 * bool(attempt and part), 2 * bool(attempt and part), part
        ),
        moments, st.integers(1, 2 * DAY_US), st.integers(0, 2), st.integers(0, AFTER),
    ),
    max_size=8,
)  # fmt: skip


@given(some_pieces, moments, st.integers(1, 3 * DAY_US), st.integers(DAY_US // 50, 2 * DAY_US))
def test_no_bucket_loses_or_adds_any_time(some: list[TimePiece], since: int, length: int, width: int):
    rows = day_rows(some)
    whole = sums_of(some)
    kept = Amounts()
    for row in rows:
        add_row(kept, row, None, row.since, row.until)
    assert (kept.wall, kept.slots, kept.gpus) == (whole.wall, whole.slots, whole.gpus)
    span, parts, at_once = Window(since, since + length, since - since % width, width), Amounts(), Amounts()
    for row in rows:
        for _, start, end in span.cuts(row.since, row.until):
            add_row(parts, row, None, start, end)
        start, end = max(row.since, span.since), min(row.until, span.until)
        if start < end:
            add_row(at_once, row, None, start, end)
    assert (parts.wall, parts.slots, parts.gpus) == (at_once.wall, at_once.slots, at_once.gpus)


def test_rows_lie_within_a_day_and_an_attempt():
    rows = day_rows(
        pieces([stretch(0, 2 * 86_400, TimeClass.TRAIN, 1)], [Hold(1, 1, 1, at(0), at(2 * 86_400))], at(9e5))
    )
    assert [(row.attempt, row.until - row.since) for row in rows] == [(1, DAY_US // 2), (1, DAY_US), (1, DAY_US // 2)]


@pytest.mark.parametrize(("share", "value"), [(0.5, 5), (0.95, 10), (0.0, 1), (1.0, 10)])
def test_percentile_is_the_nearest_rank(share: float, value: float):
    assert percentile([float(n) for n in range(10, 0, -1)], share) == value


def test_no_values_have_no_percentile():
    assert percentile([], 0.5) is None


def test_mean_of_a_level_is_that_of_the_time_in_which_it_is_known():
    span = Window(0, 400, 0, 100)
    assert mean_levels([(150, 4.0), (250, 8.0), (350, 0.0)], span) == {1: 4.0, 2: 6.0, 3: 4.0}
    assert mean_levels([(-50, 4.0)], span) == dict.fromkeys(range(4), 4.0)
    assert mean_levels([], span) == {}
