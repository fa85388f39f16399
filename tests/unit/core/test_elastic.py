"""Elastic jobs: what a lost node, a free node and a checkpoint mean for their size."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumbeat.core.lifecycle.backoff import queued_since
from drumbeat.core.lifecycle.elastic_growth import FIRST_PAUSE, MAX_PAUSE, may_grow
from drumbeat.core.lifecycle.events import (
    CancelRequested,
    CheckpointSaved,
    Decision,
    GrowthPossible,
    Loss,
    NodeLost,
    Placed,
    StartGang,
    StopGang,
)
from drumbeat.core.lifecycle.job import Job
from drumbeat.model.agent import Phase
from drumbeat.model.plan import Elastic, Growth
from drumbeat.model.states import Reason, State
from tests.support.messages import Messages

from .jobs import START, a_job, after, at, done, ended, said, slots, told

pytestmark = pytest.mark.feature("F8")
SIZES = Elastic(2, 3, 4, Growth.AT_CHECKPOINT)


def elastic(sizes: Elastic = SIZES, **policy: object) -> Job:
    job = a_job(sizes.nodes, 1, **policy)
    need = replace(job.need, min_nodes=sizes.min_nodes, max_nodes=sizes.max_nodes)
    return replace(job, plan=replace(job.plan, elastic=sizes), need=need)


def on(job: Job, nodes: int, now: datetime = START) -> Job:
    """The job when the ranks of its next attempt run on that many nodes."""
    granted = after(job, Placed(slots(nodes)), now=now)
    return after(granted, *(said(n, Phase.READY, attempt=granted.attempt) for n in range(nodes)), now=now)


def ends(job: Job, node: int, *codes: int, is_stopped: bool = True, now: datetime = START) -> Decision:
    exits = tuple(ended(node * len(codes) + n, code, is_stopped=is_stopped) for n, code in enumerate(codes))
    return told(job, said(node, Phase.ENDED, attempt=job.attempt, exits=exits), now=now)


def lost(job: Job, node: int, cause: Loss = Loss.LOST, now: datetime = START) -> Decision:
    decision = told(job, NodeLost(job.attempt, node, "no power", cause), now=now)
    for other in range(job.plan.nodes):
        if other != node:
            decision = ends(decision.job, other, 143, now=now)
    return decision


def event_messages(decision: Decision) -> list[str]:
    return [line.sentence for line in decision.events]


# --- fewer nodes --------------------------------------------------------------------------------------------------
def test_attempt_has_the_ranks_of_its_granted_nodes():
    job = on(elastic(), 2)
    assert (job.plan.nodes, job.plan.world_size, len(job.nodes)) == (2, 2, 2)
    assert job.sentence == "2 ranks started on 2 nodes"
    assert on(elastic(), 4).plan.world_size == 4


def test_story_says_by_how_much_a_first_attempt_differs_from_what_was_asked_for(messages: Messages):
    fewer = told(elastic(), Placed(slots(2)))
    messages.check(*event_messages(fewer))
    assert event_messages(told(elastic(), Placed(slots(3)))) == ["3 nodes granted on local"]


def test_job_continues_after_a_lost_node_without_counting_a_retry(messages: Messages):
    queued = lost(on(elastic(max_retries=0), 3), 2)
    assert (queued.job.state, queued.job.reason) == (State.QUEUED, Reason.REPLACING_NODES)
    messages.check(queued.job.sentence)
    again = told(queued.job, Placed(slots(2)))
    messages.check(again.job.sentence)
    assert again.effects == (StartGang(2, slots(2)),)


def test_sentence_of_a_job_names_a_preempted_node(messages: Messages):
    queued = lost(on(elastic(), 3), 1, Loss.PREEMPTED).job
    messages.check(after(queued, Placed(slots(2))).sentence)


def test_a_job_of_a_fixed_size_never_changes_its_plan():
    job = a_job(2, 1)
    assert after(job, Placed(slots(2))).plan is job.plan
    running = on(job, 2)
    assert told(running, GrowthPossible(1, 4)) == Decision(running)
    assert told(running, CheckpointSaved(1, 1, 10)) == Decision(running)


# --- more nodes ---------------------------------------------------------------------------------------------------
def test_free_nodes_are_taken_after_the_next_checkpoint(messages: Messages):
    noted = told(on(elastic(), 2), GrowthPossible(1, 3))
    messages.check(*event_messages(noted))
    assert noted.job.state is State.RUNNING
    stopping = told(noted.job, CheckpointSaved(1, 1, 1200))
    assert (stopping.job.state, stopping.job.reason) == (State.STOPPING, Reason.RESIZING)
    messages.check(stopping.job.sentence)
    queued = ends(ends(stopping.job, 0, 143).job, 1, 143)
    assert (queued.job.state, queued.job.failures) == (State.QUEUED, ())
    assert queued.effects == (StopGang(1),)
    grown = told(queued.job, Placed(slots(3)))
    messages.check(*event_messages(grown))
    assert (grown.job.attempt, grown.job.growth, grown.job.plan.world_size) == (2, 0, 3)


def test_job_that_grows_is_in_the_queue_since_its_ranks_ended():
    running, late = on(elastic(replace(SIZES, grow=Growth.AT_ONCE)), 2), at(36_000)
    assert queued_since(running) == START
    stopping = after(running, GrowthPossible(1, 3), now=late)
    queued = ends(ends(stopping, 0, 143, now=late).job, 1, 143, now=late).job
    assert (queued.state, queued_since(queued)) == (State.QUEUED, late)
    lost_again = lost(on(queued, 3, late), 2, now=at(72_000)).job
    assert (lost_again.state, queued_since(lost_again)) == (State.QUEUED, at(72_000))


def test_free_nodes_are_taken_at_once_if_the_job_says_so(messages: Messages):
    decision = told(on(elastic(replace(SIZES, grow=Growth.AT_ONCE)), 2), GrowthPossible(1, 4))
    messages.check(decision.job.sentence)


def test_checkpoint_ends_no_round_without_more_free_nodes():
    job = on(elastic(), 2)
    assert told(job, CheckpointSaved(1, 1, 10)) == Decision(job)
    taken_again = told(job, GrowthPossible(1, 3), GrowthPossible(1, 0))
    assert taken_again.job.growth == 0
    assert told(taken_again.job, CheckpointSaved(1, 1, 10)).job.state is State.RUNNING


def test_checkpoint_of_an_earlier_round_ends_no_round():
    noted = after(on(elastic(), 2), GrowthPossible(1, 3))
    for event in (CheckpointSaved(0, 1, 10), CheckpointSaved(1, 2, 10)):
        assert told(noted, event) == Decision(noted)


def test_story_tells_of_free_nodes_once_an_attempt():
    noted = after(on(elastic(), 2), GrowthPossible(1, 3))
    assert told(noted, GrowthPossible(1, 0), GrowthPossible(1, 4)).events == ()


def test_ranks_that_were_done_before_they_were_stopped_end_the_job_well(messages: Messages):
    stopping = after(on(elastic(), 2), GrowthPossible(1, 3), CheckpointSaved(1, 1, 10))
    finished = ends(ends(stopping, 0, 0, is_stopped=False).job, 1, 0, is_stopped=False)
    assert finished.job.state is State.FINALIZING
    messages.check(finished.job.sentence)


def test_ranks_that_leave_with_code_0_because_they_were_stopped_go_on_on_more_nodes():
    stopping = after(on(elastic(), 2), GrowthPossible(1, 3), CheckpointSaved(1, 1, 10))
    assert ends(ends(stopping, 0, 0).job, 1, 0).job.state is State.QUEUED


def test_a_node_lost_while_the_job_grows_is_no_failure():
    stopping = after(on(elastic(), 2), GrowthPossible(1, 3), CheckpointSaved(1, 1, 10))
    queued = lost(stopping, 1)
    assert (queued.job.state, queued.job.failures) == (State.QUEUED, ())
    assert (queued.job.avoided, queued.job.kept, queued.job.growth) == (("m",), 1, 3)


def test_a_cancel_outranks_growth():
    stopping = after(on(elastic(), 2), GrowthPossible(1, 3), CheckpointSaved(1, 1, 10), CancelRequested("ada"))
    assert ends(ends(stopping, 0, 143).job, 1, 143).job.reason in (Reason.CANCEL_REQUESTED, Reason.KEEPING_RESULTS)


def test_job_with_ended_ranks_does_not_grow():
    job = after(on(elastic(), 2), GrowthPossible(1, 3), done(0, 0))
    assert not may_grow(job, START)
    assert told(job, CheckpointSaved(1, 1, 10)).job.state is State.RUNNING


def test_job_with_its_maximum_of_nodes_does_not_grow():
    assert not may_grow(on(elastic(), 4), START)
    assert may_grow(on(elastic(), 3), START)


def test_each_loss_doubles_the_time_until_a_job_grows():
    job, now = on(elastic(), 3), at(0)
    for losses in range(4):
        pause = FIRST_PAUSE * 2**losses
        now += timedelta(hours=1)
        job = on(lost(job, 0, now=now).job, 2, now)
        assert not may_grow(job, now + pause - timedelta(seconds=1))
        assert may_grow(job, now + pause)
    many = replace(job, failures=job.failures * 20)
    assert may_grow(many, now + MAX_PAUSE)


@given(st.lists(st.sampled_from(["grow", "save", "lose", "end", "grant"]), max_size=30), st.data())
def test_no_order_of_events_leaves_the_sizes_of_a_job(names: list[str], data: Any):
    sizes = replace(SIZES, grow=data.draw(st.sampled_from(list(Growth))))
    job, now = on(elastic(sizes), 3), START
    for name in names:
        now += timedelta(hours=1)
        number = data.draw(st.integers(0, 5))
        before = job
        match name:
            case "grow":
                job = after(job, GrowthPossible(job.attempt, min(4, number)), now=now)
            case "save":
                job = after(job, CheckpointSaved(job.attempt, job.round, number), now=now)
            case "lose" if number < len(job.nodes):
                job = after(job, NodeLost(job.attempt, number, "no power"), now=now)
            case "end" if number < len(job.nodes):
                job = ends(job, number, 143, now=now).job
            case "grant" if job.state is State.QUEUED:
                job = on(job, 2 + number % 3, now)
            case _:
                pass
        assert 2 <= job.plan.nodes <= 4
        assert len({rank.node for rank in job.plan.ranks}) == job.plan.nodes
        if before.reason is Reason.RESIZING:
            assert job.failures == before.failures
