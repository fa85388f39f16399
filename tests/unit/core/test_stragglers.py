"""A slow rank is named by the looks in which all others wait for it."""

import pytest

from drumbeat.core.diagnosis.hangs.activity import Activity
from drumbeat.core.diagnosis.hangs.stragglers import slow_rank
from drumbeat.core.diagnosis.hangs.verdict import Stillness
from drumbeat.core.diagnosis.hangs.waits import Wait, WaitKind

pytestmark = pytest.mark.feature("F4")

SYNC = Wait(WaitKind.COLLECTIVE, "all_reduce")


def look(*slow: int, phase: str = "compute") -> list[Activity]:
    """A look at four ranks, of which those that aren't slow wait."""
    return [
        Activity(rank, rank // 2, works=True, phase=phase, place="data.py:14")
        if rank in slow
        else Activity(rank, rank // 2, wait=SYNC)
        for rank in range(4)
    ]


def test_rank_that_the_others_wait_for_is_named_with_its_phase() -> None:
    verdict = slow_rank([look(2, phase="data")] * 9 + [look(1)])
    assert verdict is not None
    assert (verdict.stillness, verdict.rank, verdict.node) == (Stillness.SLOW, 2, 1)
    assert verdict.sentence == (
        "rank 2 on node 1 is slow: in 9 of 10 looks the other ranks waited for it, while it loads data at data.py:14"
    )


@pytest.mark.parametrize(
    "looks",
    [
        [look(2)] * 9,
        [look(2)] * 7 + [look(1)] * 3,
        [look(1, 2)] * 10,
        [look(0, 1, 2, 3)] * 10,
        [look()] * 10,
        [[Activity(0, 0, works=True)]] * 10,
    ],
)
def test_no_rank_is_named_without_most_of_ten_looks(looks: list[list[Activity]]) -> None:
    assert slow_rank(looks) is None
