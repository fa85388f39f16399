"""Whether trials would finish sooner side by side."""

from __future__ import annotations

import pytest

from drumbeat.core.sweeps.parallel_trials import sentence

pytestmark = pytest.mark.feature("S4")


def test_ranks_that_wait_half_of_the_time_give_the_gain_and_the_time():
    said = sentence(4, [0.4, 0.6], [30, 50])
    assert "worked 50% of the time" in said
    assert "40 s a trial on 4 ranks" in said
    assert "about 80 s, so that 2.0 times as many" in said


@pytest.mark.parametrize(("ranks", "busy"), [(1, [0.5, 0.5]), (4, [0.5]), (4, [0.95, 0.9]), (4, [0.0, 0.0]), (4, [])])
def test_nothing_is_said_without_a_clear_and_measured_gain(ranks: int, busy: list[float]):
    assert sentence(ranks, busy, [10.0] * len(busy)) == ""
