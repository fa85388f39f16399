"""What a comparison of jobs says of the time that was lost."""

from datetime import UTC, datetime, timedelta

import pytest

from drumbeat.control.metrics.comparison import lost_s
from drumbeat.core.life.events import StoryEntry
from drumbeat.protocol.states import Reason, State

pytestmark = pytest.mark.feature("M12")

BEGIN = datetime(2026, 11, 1, tzinfo=UTC)


def entry(second: float, state: State, round_: int = 1, attempt: int = 1) -> StoryEntry:
    at = BEGIN + timedelta(seconds=second)
    return StoryEntry(at, state, Reason.RANKS_RUNNING, "", attempt, round_)


def test_the_only_round_of_a_job_is_not_lost() -> None:
    story = [entry(0, State.QUEUED), entry(5, State.RUNNING), entry(65, State.COMPLETED)]
    assert lost_s(story) == 0


def test_rounds_before_the_last_are_lost_and_waiting_is_not() -> None:
    story = [
        entry(0, State.QUEUED),
        entry(5, State.RUNNING),
        entry(35, State.STOPPING),
        entry(40, State.RUNNING, round_=2),
        entry(50, State.QUEUED, attempt=2),
        entry(90, State.RUNNING, attempt=2),
        entry(99, State.COMPLETED, attempt=2),
    ]
    assert lost_s(story) == 30 + 10


@pytest.mark.parametrize("story", [[], [entry(0, State.QUEUED)]])
def test_a_job_that_never_ran_has_lost_nothing(story: list[StoryEntry]) -> None:
    assert lost_s(story) == 0
