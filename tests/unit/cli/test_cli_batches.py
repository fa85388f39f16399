"""A source that blocks, read in a thread."""

import threading
from collections.abc import Iterator

import pytest

from drumbeat.cli.follow.background_reader import AHEAD, Batches, Signalled


def test_items_come_in_their_order_and_nothing_is_lost():
    count = 3 * AHEAD
    assert [item for batch in Batches(range(count)) for item in batch] == list(range(count))


def test_silent_source_yields_empty_batches():
    go_on = threading.Event()

    def source() -> Iterator[int]:
        yield 1
        go_on.wait(60)
        yield 2

    seen: list[int | Signalled] = []
    was_empty = False
    for batch in Batches(source(), every_s=0.001):
        seen += batch
        if seen and not batch:
            was_empty = True
            go_on.set()
    assert was_empty
    assert seen == [1, 2]


def test_a_signal_comes_between_the_items():
    waiting = threading.Event()

    def source() -> Iterator[int]:
        waiting.wait(60)
        yield 1

    batches = Batches(source(), every_s=0.001)
    batches.signal(2)
    seen: list[int | Signalled] = []
    for batch in batches:
        seen += batch
        waiting.set()
    assert seen == [Signalled(2), 1]


def test_error_of_source_is_raised_after_the_items_before_it():
    def source() -> Iterator[int]:
        yield 1
        raise OSError("gone")

    seen: list[int | Signalled] = []
    with pytest.raises(OSError, match="gone"):
        seen.extend(item for batch in Batches(source()) for item in batch)
    assert seen == [1]
