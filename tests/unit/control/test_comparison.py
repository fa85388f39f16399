"""What a comparison of jobs says of the time that was lost: as the ledger counts it."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from drumbeat.control.metrics.comparison import Compared, compare
from drumbeat.core.ledger_times import Save
from drumbeat.core.life.events import StoryEntry
from drumbeat.ports import Record
from drumbeat.protocol.states import Reason, State
from tests.unit.core.jobs import START, a_job, at

pytestmark = pytest.mark.feature("M12")


def entry(second: float, state: State, round_: int = 1) -> StoryEntry:
    return StoryEntry(at(second), state, Reason.RANKS_RUNNING, "", 1, round_)


def lost_s(story: list[StoryEntry], *, saves: Sequence[Save] = ()) -> object:
    job = replace(a_job(), started_at=START, ended_at=story[-1].at if story else None)
    view = compare([Compared(Record(job, 1, {}), story, (), saves)], at(99))
    return next(row.values[0] for row in view.outcomes if row.key == "lost_s")


RESTARTED = [
    entry(0, State.QUEUED),
    entry(5, State.RUNNING),
    entry(35, State.STOPPING),
    entry(40, State.RUNNING, 2),
    entry(99, State.COMPLETED, 2),
]


def test_round_that_failed_is_lost_until_its_ranks_have_ended() -> None:
    assert lost_s(RESTARTED) == 35


def test_work_before_a_checkpoint_is_not_lost() -> None:
    assert lost_s(RESTARTED, saves=[Save(at(25), timedelta())]) == 15


@pytest.mark.parametrize(
    "story",
    [[], [entry(0, State.QUEUED)], [entry(0, State.QUEUED), entry(5, State.RUNNING), entry(65, State.COMPLETED)]],
)
def test_job_without_a_failed_round_has_lost_nothing(story: list[StoryEntry]) -> None:
    assert lost_s(story) == 0
