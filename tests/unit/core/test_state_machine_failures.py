"""What becomes of a job whose ranks or nodes fail."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drumbeat.core.lifecycle.events import (
    CancelRequested,
    Event,
    GangRefused,
    JudgeDue,
    KeepEvents,
    NodeLost,
    Placed,
    StopGang,
)
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.lifecycle.state_machine import JUDGE_AFTER
from drumbeat.model.agent import Phase
from drumbeat.model.states import Reason, State
from tests.support.messages import Messages

from .jobs import PEER_GONE, RAISED, a_job, after, at, done, ended, running, said, slots, told


@pytest.mark.feature("F1")
def test_one_failing_rank_stops_the_others(messages: Messages):
    job = after(running(), said(1, Phase.RUNNING, exits=(ended(3, 1, tail=RAISED),)))
    assert (job.state, job.reason) == (State.STOPPING, Reason.RANK_FAILED)
    messages.check(job.sentence)


ABANDONED = {"lost": True, "is_abandoned": True}


def missing_a_peer() -> Job:
    """Two ranks on each of two nodes; rank 0 has lost a peer, and nobody knows yet why."""
    return after(running(), said(0, Phase.RUNNING, exits=(ended(0, 1, tail=PEER_GONE),)), now=at(10))


@pytest.mark.feature("F1")
def test_round_with_a_missing_peer_waits_for_the_peers_own_error(messages: Messages):
    job = missing_a_peer()
    assert (job.state, job.judge_at) == (State.RUNNING, at(10) + JUDGE_AFTER)
    messages.check(job.sentence)
    more = said(0, Phase.ENDED, exits=(ended(0, 1, tail=PEER_GONE), ended(1, 1, tail=PEER_GONE)))
    job = after(job, more, now=at(12))
    assert (job.state, job.judge_at) == (State.RUNNING, at(10) + JUDGE_AFTER)
    job = after(job, said(1, Phase.RUNNING, exits=(ended(2, 1, at=3.0, tail=RAISED),)), now=at(13))
    assert (job.state, job.judge_at) == (State.STOPPING, None)
    messages.check(job.sentence)


@pytest.mark.feature("F1")
def test_ranks_that_miss_a_peer_are_the_cause_when_no_other_error_comes_in_time(messages: Messages):
    job = after(missing_a_peer(), JudgeDue())
    assert (job.state, job.reason, job.judge_at) == (State.STOPPING, Reason.RANK_FAILED, None)
    messages.check(job.sentence)
    assert told(running(), JudgeDue()).events == ()


@pytest.mark.feature("F1")
@pytest.mark.parametrize(
    ("event", "said_of_it"),
    [
        (said(1, Phase.ENDED, exits=(ended(2), ended(3))), "rank 2 on node 1 left with exit code 0 while the other"),
        (said(1, Phase.ENDED, exits=(ended(2, None, signal=9),)), "rank 2 on node 1 was ended by SIGKILL"),
        (said(1, Phase.ENDED, lost=True), "the supervisor of node 1 is gone"),
        (NodeLost(1, 1, "no power"), "node 1 is gone: no power"),
        (said(1, Phase.RUNNING, is_preempted=True), "node 1 was told to stop (SIGTERM)"),
        (CancelRequested("ada"), "canceled by ada"),
    ],
)
def test_whatever_is_heard_of_while_ranks_miss_a_peer_counts_at_once(event: Event, said_of_it: str):
    job = after(missing_a_peer(), event)
    assert (job.state, job.judge_at) == (State.STOPPING, None)
    assert job.sentence.startswith(said_of_it)


@pytest.mark.feature("F1")
@pytest.mark.parametrize(
    "status",
    [
        said(1, Phase.RUNNING, **ABANDONED),
        said(1, Phase.RUNNING, exits=(ended(2, None, signal=15, is_stopped=True),), **ABANDONED),
        said(1, Phase.ENDED, exits=tuple(ended(rank, None, signal=9, is_stopped=True) for rank in (2, 3)), **ABANDONED),
    ],
    ids=["stopping", "one has ended", "over"],
)
def test_ranks_ended_by_a_supervisor_without_agent_are_not_blamed(status: Event, messages: Messages):
    for job in (running(), missing_a_peer()):
        stopped = after(job, status)
        assert stopped.reason is Reason.KEEPER_LOST
        messages.check(stopped.sentence)


@pytest.mark.feature("F1")
def test_abandoned_ranks_are_the_cause_even_if_reported_after_their_peers_failed(messages: Messages):
    job = after(missing_a_peer(), JudgeDue())
    assert job.reason is Reason.RANK_FAILED
    gone = tuple(ended(rank, None, signal=9, is_stopped=True) for rank in (2, 3))
    peers = (ended(0, 1, tail=PEER_GONE), ended(1, None, signal=15, is_stopped=True))
    job = after(job, said(0, Phase.ENDED, exits=peers), said(1, Phase.ENDED, exits=gone, **ABANDONED))
    assert job.failures[-1].verdict.reason is Reason.KEEPER_LOST
    messages.check(job.failures[-1].verdict.sentence)


@pytest.mark.feature("F1")
def test_worker_that_left_when_its_supervisor_gave_up_has_not_finished():
    job = running(1, 2)
    server, worker = job.plan.ranks
    job = replace(job, plan=replace(job.plan, ranks=(replace(server, serves=True), worker)))
    gone = (ended(0, None, signal=15, is_stopped=True), ended(1, 0, is_stopped=True))
    job = after(job, said(0, Phase.ENDED, exits=gone, **ABANDONED))
    assert job.failures[-1].verdict.reason is Reason.KEEPER_LOST


@pytest.mark.feature("F1")
def test_restarted_machine_is_named_as_the_reason_and_costs_no_retry(messages: Messages):
    job = after(running(), said(1, Phase.ENDED, lost=True, is_restarted=True))
    assert job.reason is Reason.MACHINE_RESTARTED
    messages.check(job.sentence)
    job = after(
        job, said(0, Phase.ENDED, exits=(ended(0, 1, tail=PEER_GONE), ended(1, None, signal=15, is_stopped=True)))
    )
    assert job.failures[-1].verdict.reason is Reason.MACHINE_RESTARTED
    messages.check(job.sentence)


@pytest.mark.feature("F1")
def test_killed_supervisor_is_named_as_the_reason_while_its_agent_sends_logs(messages: Messages):
    job = after(running(), said(1, Phase.RUNNING, lost=True))
    messages.check(job.sentence)


@pytest.mark.feature("F1")
def test_a_rank_that_failed_before_its_supervisor_gave_up_is_the_cause(messages: Messages):
    exits = (ended(2, 1, tail=RAISED), ended(3, None, signal=9, is_stopped=True))
    job = after(running(), said(1, Phase.ENDED, exits=exits, **ABANDONED))
    messages.check(job.sentence)


@pytest.mark.feature("F1")
def test_forgotten_failure_is_not_awaited():
    """The supervisor is gone, and its agent had to start again and can't start another one."""
    job = after(missing_a_peer(), said(0, Phase.ENROLLED, 0))
    assert (job.state, job.judge_at) == (State.RUNNING, None)
    assert told(job, JudgeDue()).events == ()


@pytest.mark.feature("F1")
def test_rank_that_ends_without_an_error_while_others_miss_a_peer_is_no_cause(messages: Messages):
    job = after(missing_a_peer(), said(1, Phase.RUNNING, exits=(ended(2, 3, at=4.0, tail="lost rank 0"),)))
    assert job.judge_at == at(10) + JUDGE_AFTER
    job = after(
        job, said(1, Phase.ENDED, exits=(ended(2, 3, at=4.0, tail="lost rank 0"), ended(3, 1, at=5.0, tail=RAISED)))
    )
    messages.check(job.sentence)


@pytest.mark.feature("F1")
def test_ranks_that_all_miss_a_peer_and_have_all_ended_are_not_waited_for(messages: Messages):
    both = [said(node, Phase.ENDED, exits=(ended(2 * node, 1, tail=PEER_GONE), ended(2 * node + 1, 1, tail=PEER_GONE)))
            for node in range(2)]  # fmt: skip
    job = after(running(), *both)
    assert (job.state, job.round, job.judge_at) == (State.STAGING, 2, None)
    messages.check(job.failures[-1].verdict.sentence)


@pytest.mark.feature("F2")
def test_sentence_announces_signals_only_while_a_rank_is_left(messages: Messages):
    failed = (ended(0, 1),)
    some = told(running(1, 2), said(0, Phase.RUNNING, exits=failed))
    messages.check(some.job.sentence)
    none = told(running(1, 2), said(0, Phase.RUNNING, exits=(*failed, ended(1, 1))))
    assert (none.job.state, "SIG" in none.job.sentence) == (State.STOPPING, False)


def test_failure_of_the_program_starts_a_round_on_the_same_nodes():
    job = after(running(), done(0, 1, 0), done(1, 0, 0))
    assert (job.state, job.reason, job.round, job.attempt) == (State.STAGING, Reason.RESTARTING_RANKS, 2, 1)
    again = after(job, said(0, Phase.READY, 2), said(1, Phase.READY, 2))
    assert again.state is State.RUNNING
    assert again.roster is not None
    assert again.roster.round == 2


def test_finalizing_job_ends_early_only_with_discard():
    keeps = after(running(), done(0, 0, 0), done(1, 0, 0))
    assert told(keeps, CancelRequested("ada")).job == keeps
    given_up = told(keeps, CancelRequested("ada", discard=True))
    assert (given_up.job.state, given_up.job.reason) == (State.CANCELED, Reason.CANCEL_REQUESTED)
    assert [type(effect) for effect in given_up.effects] == [StopGang, KeepEvents]


@pytest.mark.feature("F2")
def test_failure_reported_after_all_ranks_ended_is_handled_at_once():
    job = after(running(nodes=1), done(0, 1, 0))
    assert (job.state, job.round) == (State.STAGING, 2)


@pytest.mark.feature("F2")
def test_the_same_error_at_the_same_place_twice_ends_the_job(messages: Messages):
    job = running()
    for nth in (1, 2):
        fails = [said(n, Phase.ENDED, nth, exits=(ended(n, 1, tail=RAISED),)) for n in (0, 1)]
        job = after(job, *[said(n, Phase.READY, nth) for n in (0, 1)], *fails)
    assert job.state is State.FINALIZING
    messages.check(job.sentence)


@pytest.mark.feature("F2")
def test_lost_node_starts_a_new_attempt_and_counts_no_retry():
    decision = told(running(max_retries=0), NodeLost(1, 1, "no power"), done(0, 0, 0))
    assert (decision.job.state, decision.job.reason) == (State.QUEUED, Reason.REPLACING_NODES)
    assert decision.effects == (StopGang(1),)
    again = after(decision.job, Placed(slots()))
    assert (again.attempt, again.round, again.nodes) == (2, 1, (None, None))


def test_nodes_that_were_refused_end_the_job():
    job = after(a_job(), Placed(slots()), GangRefused(1, "no quota"))
    assert (job.state, job.reason) == (State.FAILED, Reason.NODES_REFUSED)


def test_a_staging_error_names_the_node(messages: Messages):
    job = after(a_job(), Placed(slots()), said(1, Phase.STAGING, error="/data isn't there"))
    assert (job.state, job.reason) == (State.FAILED, Reason.STAGING_FAILED)
    messages.check(job.sentence)


@pytest.mark.feature("E3")
def test_nodes_with_different_environments_do_not_start_and_are_not_tried_again():
    ready = [said(node, Phase.READY) for node in (0, 1)]
    ones = [
        replace(one, status=replace(one.status, member=replace(one.status.member, environment=f"3.11.7 {told}")))
        for one, told in zip(ready, ("a1 numpy==2.1", "b2 numpy==2.2"), strict=True)
    ]
    job = after(a_job(), Placed(slots()), *ones)
    assert (job.state, job.reason) == (State.FAILED, Reason.ENVIRONMENTS_DIFFER)
    assert "numpy 2.1 on node 0 " in job.sentence
    assert "2.2 on node 1 " in job.sentence
    assert after(a_job(), Placed(slots()), ones[0], replace(ones[0], node=1)).state is State.RUNNING


def test_results_that_were_lost_fail_a_job_whose_ranks_ended_well():
    job = after(running(), done(0, 0, 0), done(1, 0, 0), said(0, Phase.UPLOADED))
    job = after(job, said(1, Phase.UPLOADING, error="disk full"))
    assert (job.state, job.reason) == (State.FAILED, Reason.RESULTS_LOST)


def test_node_that_missed_the_last_round_can_still_finish():
    job = after(running(), done(0, 1, 0), done(1, 0, 0), CancelRequested("ada"))
    assert job.state is State.FINALIZING
    assert after(job, said(0, Phase.UPLOADED, 1), said(1, Phase.UPLOADED, 2)).state is State.CANCELED
