"""How many threads fetch."""

import threading
from itertools import count

import pytest

from drumbeat.node.inputs.fetching.fetch_threads import Crew


def nothing() -> None:
    """Nobody looks."""


@pytest.mark.parametrize("is_wide", [True, False])
def test_threads_that_wait_are_joined_by_all_others(is_wide: bool):
    all_are_there = threading.Barrier(5)
    Crew(lambda: all_are_there.wait(60) and None, 5, is_wide=is_wide).wait(nothing)
    assert not all_are_there.broken


def test_one_that_keeps_the_processor_busy_stays_alone():
    begun, looks, go = count(), count(), threading.Event()
    ticks = count()

    def clocks() -> tuple[float, float]:
        now = float(next(ticks))
        return now, now

    def look() -> None:
        if next(looks) == 5:
            go.set()

    crew = Crew(lambda: next(begun) >= 0 and go.wait(60) and None, 8, is_wide=False, clocks=clocks)
    crew.wait(look)
    assert next(begun) == 1
