"""Each second of a job's wall time is in one class of time, as the job's story tells."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumbeat.core import ledger_times
from drumbeat.core.lifecycle.events import (
    CancelRequested,
    Event,
    GangObserved,
    JobEvent,
    Placed,
    RetryDue,
    StallObserved,
    StatusReported,
    ValueLogged,
)
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.lifecycle.state_machine import decide
from drumbeat.model.agent import Phase
from drumbeat.model.states import Reason, State

from .jobs import START, a_job, at, done, said, slots

pytestmark = pytest.mark.feature("M6")

ACCEPTED = JobEvent(START, State.QUEUED, Reason.ACCEPTED, "accepted")


def events_at(job: Job, *events: tuple[float, Event]) -> list[JobEvent]:
    """The story of a job to which these events happened, each at its second."""
    story = [ACCEPTED]
    for second, event in events:
        decision = decide(job, event, at(second))
        job, story = decision.job, story + list(decision.events)
    return story


def seconds(story: list[JobEvent], now: float, *saves: tuple[float, float]) -> dict[str, float]:
    """The classes that have any time, in seconds. saves: when the state was copied, after how long a stall."""
    copies = [ledger_times.Save(at(copied), timedelta(seconds=stall)) for copied, stall in saves]
    sums = ledger_times.by_class(ledger_times.stretches(story, at(now), copies))
    return {name.value: length.total_seconds() for name, length in sums.items() if length}


def ready(*nodes: int) -> list[StatusReported]:
    return [said(node, Phase.READY) for node in nodes]


def uploaded(code: int = 0) -> StatusReported:
    return said(0, Phase.UPLOADED, exits=done(0, code).status.exits)


def test_job_that_ends_well_has_no_lost_time():
    story = events_at(
        a_job(1, 1),
        (10, Placed(slots(1))),
        (12, said(0, Phase.STAGING)),
        (20, ready(0)[0]),
        (50, done(0, 0)),
        (53, uploaded()),
    )
    assert seconds(story, 99) == {"queue": 10, "provision": 2, "stage": 8 + 3, "train": 30}


def test_building_an_environment_is_apart_from_staging():
    story = events_at(
        a_job(2, 1),
        (1, Placed(slots())),
        (2, said(0, Phase.STAGING)),
        (3, said(1, Phase.STAGING)),
        (5, said(0, Phase.STAGING, builds_environment=True)),
        (6, said(1, Phase.STAGING, builds_environment=True)),
        (9, said(0, Phase.READY)),
        (16, said(1, Phase.STAGING)),
        (18, said(1, Phase.READY)),
    )
    assert [line.reason for line in story][2:5] == [
        Reason.PREPARING_NODES, Reason.BUILDING_ENVIRONMENT, Reason.PREPARING_NODES,
    ]  # fmt: skip
    assert seconds(story, 18) == {"queue": 1, "provision": 2, "stage": 2 + 2, "environment": 11}


def test_ranks_start_until_one_has_logged_a_value():
    first = ValueLogged(1, 1, "rank 0 logged its first value: loss 2 at step 0")
    late = ValueLogged(1, 2, "of another round")
    events = [(0, Placed(slots(1))), (0, ready(0)[0]), (1, late), (7, first), (8, first)]
    story = events_at(a_job(1, 1), *events)
    assert [line.reason for line in story][-2:] == [Reason.RANKS_RUNNING, Reason.TRAINING]
    assert seconds(story, 30) == {"start": 7, "train": 23}


def test_running_without_a_logged_value_is_training():
    story = events_at(a_job(1, 1), (0, Placed(slots(1))), (0, ready(0)[0]))
    assert seconds(story, 30) == {"train": 30}


def test_failed_round_is_lost_and_its_restart_is_start():
    story = events_at(
        a_job(1, 1, max_retries=1),
        (0, Placed(slots(1))),
        (0, ready(0)[0]),
        (4, ValueLogged(1, 1, "rank 0 logged a value")),
        (30, done(0, 3)),
        (35, said(0, Phase.READY, 2)),
        (39, ValueLogged(1, 2, "rank 0 logged a value")),
        (60, said(0, Phase.ENDED, 2, exits=done(0, 0).status.exits)),
        (60, said(0, Phase.UPLOADED, 2, exits=done(0, 0).status.exits)),
    )
    assert seconds(story, 99) == {"start": 4 + 5 + 4, "lost": 26, "train": 21}


def test_work_until_the_last_checkpoint_is_kept_and_its_stalls_are_checkpoint():
    story = events_at(
        a_job(1, 1, max_retries=1),
        (0, Placed(slots(1))),
        (0, ready(0)[0]),
        (4, ValueLogged(1, 1, "rank 0 logged a value")),
        (30, done(0, 3)),
        (35, said(0, Phase.READY, 2)),
        (39, ValueLogged(1, 2, "rank 0 logged a value")),
        (60, said(0, Phase.ENDED, 2, exits=done(0, 0).status.exits)),
        (60, said(0, Phase.UPLOADED, 2, exits=done(0, 0).status.exits)),
    )
    saves = ((10, 1), (20, 2), (50, 3), (500, 9))
    assert seconds(story, 99, *saves) == {"start": 4 + 5 + 4, "checkpoint": 6, "train": 13 + 18, "lost": 10}
    assert seconds(story, 99, (2, 5)) == {"start": 2 + 5 + 4, "checkpoint": 2, "train": 21, "lost": 26}


def test_job_that_failed_has_lost_its_last_round():
    job = a_job(1, 1, max_retries=0)
    story = events_at(job, (0, Placed(slots(1))), (0, ready(0)[0]), (30, done(0, 3)), (31, uploaded(3)))
    assert story[-1].state is State.FAILED
    assert seconds(story, 99) == {"lost": 30, "stage": 1}


def test_canceled_job_keeps_its_training_until_its_ranks_are_gone():
    story = events_at(
        a_job(1, 1), (0, Placed(slots(1))), (0, ready(0)[0]), (30, CancelRequested("ada")), (34, done(0, 143)),
        (36, uploaded(143)),
    )  # fmt: skip
    assert story[-1].state is State.CANCELED
    assert seconds(story, 99) == {"train": 34, "stage": 2}


def test_waiting_in_the_queue_of_a_cluster_is_queue():
    story = events_at(
        a_job(1, 1),
        (2, Placed(slots(1))),
        (3, GangObserved(1, "PENDING (Resources)", waits=True)),
        (13, GangObserved(1, "RUNNING")),
    )
    assert seconds(story, 20) == {"queue": 2 + 10, "provision": 1 + 7}


def test_job_canceled_in_the_queue_after_a_loss_has_lost_its_round():
    story = [
        ACCEPTED,
        JobEvent(at(1), State.RUNNING, Reason.RANKS_RUNNING, "1 rank started", 1, 1),
        JobEvent(at(9), State.STOPPING, Reason.NODE_LOST, "node 0 is gone", 1, 1),
        JobEvent(at(10), State.QUEUED, Reason.REPLACING_NODES, "a new set of nodes", 1, 1),
        JobEvent(at(15), State.CANCELED, Reason.CANCEL_REQUESTED, "canceled", 1, 1),
    ]
    assert seconds(story, 99) == {"queue": 1 + 5, "lost": 9}


def test_time_limit_throws_no_work_away():
    story = [
        ACCEPTED,
        JobEvent(at(1), State.RUNNING, Reason.RANKS_RUNNING, "1 rank started", 1, 1),
        JobEvent(at(9), State.STOPPING, Reason.TIMED_OUT, "the time limit was reached", 1, 1),
        JobEvent(at(10), State.FAILED, Reason.TIMED_OUT, "the time limit was reached", 1, 1),
    ]
    assert seconds(story, 99) == {"queue": 1, "train": 9}


def hang(silent_s: float, *, is_over: bool = False, is_certain: bool = False) -> StallObserved:
    return StallObserved(1, 1, "the job hangs", is_hang=True, is_over=is_over, is_certain=is_certain, silent_s=silent_s)


def test_hang_is_a_stall_from_the_last_sign_of_life_until_the_ranks_go_on():
    first = ValueLogged(1, 1, "rank 0 logged a value")
    story = events_at(
        a_job(1, 2), (0, Placed(slots(1))), (0, ready(0)[0]), (4, first), (50, hang(20)), (70, hang(0, is_over=True)),
        (90, done(0, 0, 0)), (90, uploaded()),
    )  # fmt: skip
    reasons = [line.reason for line in story if line.state is State.RUNNING]
    assert reasons == [Reason.RANKS_RUNNING, Reason.TRAINING, Reason.HANGING, Reason.TRAINING]
    assert seconds(story, 90) == {"start": 4, "train": 26 + 20, "stall": 20 + 20}
    until_then = [line for line in story if line.at <= at(60)]
    assert seconds(until_then, 60) == {"start": 4, "train": 26, "stall": 20 + 10}


def test_hang_that_ends_its_round_is_a_stall_and_the_work_before_it_is_lost():
    job = a_job(1, 1)
    job = replace(job, plan=replace(job.plan, on_hang="restart"))
    story = events_at(
        job, (0, Placed(slots(1))), (0, ready(0)[0]), (50, hang(20, is_certain=True)), (53, done(0, 143)),
        (55, said(0, Phase.READY, 2)),
    )  # fmt: skip
    assert [line.reason for line in story][-2:] == [Reason.RESTARTING_RANKS, Reason.RANKS_RUNNING]
    assert seconds(story, 60) == {"lost": 30 + 3, "stall": 20, "start": 2, "train": 5}
    assert seconds(story, 60, (12, 0)) == {"train": 12 + 5, "lost": 18 + 3, "stall": 20, "start": 2}


def test_rendezvous_that_times_out_is_a_stall_within_its_own_round_only():
    stuck = replace(hang(400), is_certain=True, is_rendezvous=True)
    story = events_at(a_job(1, 1), (9, Placed(slots(1))), (10, ready(0)[0]), (50, stuck), (53, done(0, 143)))
    assert seconds(story, 53) == {"queue": 9, "provision": 1, "stall": 40, "lost": 3}


def test_wait_before_another_try_is_lost():
    story = events_at(
        a_job(1, 1), (0, Placed(slots(1))), (0, ready(0)[0]), (10, done(0, 1)), (12, said(0, Phase.READY, 2)),
        (20, said(0, Phase.ENDED, 2, exits=done(0, 1).status.exits)), (21, said(0, Phase.READY, 3)), (30, RetryDue()),
    )  # fmt: skip
    assert [line.reason for line in story][-3:] == [Reason.BACKING_OFF, Reason.RESTARTING_RANKS, Reason.RANKS_RUNNING]
    assert seconds(story, 35) == {"lost": 10 + 8 + 10, "start": 2, "train": 5}
    assert seconds(story, 35, (32, 0)) == {"lost": 10 + 8 + 10, "start": 2, "train": 5}
    assert seconds(story, 35, (5, 0), (32, 0)) == {"train": 5 + 5, "lost": 5 + 8 + 10, "start": 2}


def a_line(second: int, state: State, reason: Reason, number: int, since: int | None) -> JobEvent:
    return JobEvent(at(second), state, reason, "", 1, number, None if since is None else at(since))


lines = st.lists(
    st.builds(
        a_line, st.integers(-50, 1000), st.sampled_from(State), st.sampled_from(Reason), st.integers(1, 3),
        st.none() | st.integers(-50, 1000),
    ),
    max_size=12,
)  # fmt: skip


def a_save(copied: int, stall: int) -> ledger_times.Save:
    return ledger_times.Save(at(copied), timedelta(seconds=stall))


copies = st.lists(st.builds(a_save, st.integers(-50, 1000), st.integers(0, 99)), max_size=5)


@given(lines, st.integers(-10, 2000), copies)
def test_classes_sum_to_wall_time_in_any_story_by_any_clock(
    some: list[JobEvent], now: int, saves: list[ledger_times.Save]
):
    story = [ACCEPTED, *some]
    over = next((line for line in story if line.state.is_terminal), None)
    read = story[: story.index(over) + 1] if over else story
    end = over.at if over else max(read[-1].at, at(now))
    parts = ledger_times.stretches(story, at(now), saves)
    assert sum(ledger_times.by_class(parts).values(), timedelta()) == max(end - START, timedelta())
    assert all(one.end == other.start for one, other in pairwise(parts))
