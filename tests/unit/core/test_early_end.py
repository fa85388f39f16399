"""Conditions in the life of a job: one that ends it does so once and well, and one that notifies is told once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drumbeat.core.lifecycle.early_end import MAX_NOTICES
from drumbeat.core.lifecycle.events import CancelRequested, Decision, NodeLost, StatusReported, TimeUp
from drumbeat.core.lifecycle.exit_code import exit_code
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.lifecycle.state_machine import decide
from drumbeat.model.agent import Phase
from drumbeat.model.conditions import ConditionAction, ConditionKind, ConditionState, JobCondition
from drumbeat.model.states import Reason, State
from tests.support.messages import Messages

from .jobs import RAISED, after, at, done, ended, killed, running, said, told

pytestmark = pytest.mark.feature("M13")

STOP, NOTIFY = ConditionAction.STOP, ConditionAction.NOTIFY
NAN = JobCondition(STOP, ConditionKind.NAN, "loss")
LOW = JobCondition(NOTIFY, ConditionKind.BELOW, "loss", 0.1)
UNUSED = JobCondition(STOP, ConditionKind.GPU_BELOW, limit=10, lasting_s=60)
IDLE = (
    JobCondition(STOP, ConditionKind.IDLE, lasting_s=3600),
    JobCondition(NOTIFY, ConditionKind.IDLE, lasting_s=3000),
)


def watching(*conditions: JobCondition) -> Job:
    """Returns a running job of two ranks on each of two nodes."""
    job = running()
    return replace(job, plan=replace(job.plan, conditions=conditions))


def seen(number: int = 0, times: int = 1, *, is_met: bool = True) -> ConditionState:
    return ConditionState(number, times, is_met, "loss is not a number (at step 6, rank 3)")


def reports(node: int, *states: ConditionState, phase: Phase = Phase.RUNNING, **more: object) -> StatusReported:
    return said(node, phase, conditions=states, **more)


def stopped_ranks(first: int) -> tuple[object, ...]:
    return tuple(ended(rank, 143, is_stopped=True) for rank in (first, first + 1))


def test_met_condition_stops_all_ranks_and_completes_the_job(messages: Messages) -> None:
    job = after(watching(NAN), reports(1, seen()))
    assert (job.state, job.reason) == (State.STOPPING, Reason.STOPPED_EARLY)
    messages.check(job.sentence)
    both = [reports(node, seen(), phase=Phase.ENDED, exits=stopped_ranks(2 * node)) for node in (0, 1)]
    job = after(job, *both)
    assert (job.state, job.reason) == (State.FINALIZING, Reason.KEEPING_RESULTS)
    job = after(job, *(reports(node, seen(), phase=Phase.UPLOADED) for node in (0, 1)))
    assert (job.state, job.reason, exit_code(job)) == (State.COMPLETED, Reason.STOPPED_EARLY, 0)
    assert not job.failures
    messages.check(job.sentence)


@pytest.mark.parametrize("how", ["raised", "killed"])
def test_rank_that_fails_over_the_value_is_not_started_again(how: str) -> None:
    failure = ended(3, 1, tail=RAISED) if how == "raised" else killed(3, 9)
    job = after(watching(NAN), said(1, Phase.RUNNING, exits=(failure,)))
    assert job.state is State.STOPPING
    assert job.reason is not Reason.STOPPED_EARLY
    last = reports(1, seen(), phase=Phase.ENDED, exits=(failure, ended(2, 143, is_stopped=True)))
    job = after(job, last, said(0, Phase.ENDED, exits=stopped_ranks(0)))
    assert (job.state, job.round) == (State.FINALIZING, 1)
    assert job.verdict is not None
    assert job.verdict.reason is Reason.STOPPED_EARLY
    assert not job.failures


def test_rank_that_fails_without_a_met_condition_is_started_again() -> None:
    job = after(watching(NAN), said(1, Phase.RUNNING, exits=(killed(3, 9),)))
    rest = said(1, Phase.ENDED, exits=(killed(3, 9), ended(2, 143, is_stopped=True)))
    job = after(job, rest, said(0, Phase.ENDED, exits=stopped_ranks(0)))
    assert (job.state, job.round) == (State.STAGING, 2)


def test_ranks_that_all_ended_well_have_finished() -> None:
    job = after(watching(NAN), done(0, 0, 0), reports(1, seen(), phase=Phase.ENDED, exits=(ended(2), ended(3))))
    assert job.state is State.FINALIZING
    assert job.verdict is not None
    assert job.verdict.reason is Reason.FINISHED


def test_ranks_that_ended_well_before_sigterm_came_have_finished() -> None:
    job = after(watching(NAN), reports(1, seen()), done(0, 0, 0))
    job = after(job, reports(1, seen(), phase=Phase.ENDED, exits=(ended(2), ended(3))))
    assert job.verdict is not None
    assert job.verdict.reason is Reason.FINISHED


def test_cancel_and_time_limit_come_too_late_for_a_job_that_ends_early() -> None:
    job = after(watching(NAN), reports(1, seen()))
    assert after(job, CancelRequested("ada"), TimeUp()) == job


def test_lost_node_keeps_the_job_from_ending_well() -> None:
    job = after(watching(NAN), reports(1, seen()), NodeLost(1, 0, "no power"))
    job = after(job, reports(1, seen(), phase=Phase.ENDED, exits=stopped_ranks(2)))
    assert job.verdict is not None
    assert job.verdict.reason is Reason.RESULTS_LOST


def test_condition_of_the_gpus_waits_for_all_nodes() -> None:
    job = after(watching(UNUSED), reports(0, seen()))
    assert job.state is State.RUNNING
    assert after(job, reports(0, seen(is_met=False)), reports(1, seen())).state is State.RUNNING
    assert after(job, reports(1, seen())).reason is Reason.STOPPED_EARLY


def notices(job: Job, *events: StatusReported) -> tuple[Job, list[tuple[str, ...]]]:
    """Returns the job after the events, and what is to be told at each of them."""
    sentences: list[tuple[str, ...]] = []
    for event in events:
        decision = decide(job, event, at(1))
        job = decision.job
        sentences.append(decision.notices)
        assert len(decision.notices) == sum("notify_when" in one.sentence for one in decision.events)
    return job, sentences


def test_condition_is_told_each_time_it_becomes_true_on_one_node_of_many() -> None:
    told_ = seen().sentence
    job, sentences = notices(
        watching(LOW),
        reports(0, seen()),
        reports(1, seen()),  # It is true already.
        reports(0, seen(is_met=False)),
        reports(0, seen(times=2)),  # On node 1 it has been true all the time.
        reports(1, seen(is_met=False)),
        reports(0, seen(times=2, is_met=False)),
        reports(1, seen(times=2)),
    )
    assert sentences == [(told_,), (), (), (), (), (), (told_,)]
    assert job.state is State.RUNNING


def test_condition_that_swings_is_told_a_number_of_times(messages: Messages) -> None:
    job, last = watching(LOW), ()
    for times in range(1, 3 * MAX_NOTICES):
        job, sentences = notices(job, reports(0, seen(times=times)), reports(0, seen(times=times, is_met=False)))
        last = sentences[0] or last
    messages.check(*last)
    assert job.reported_subjects.count("condition 0") == MAX_NOTICES


def test_idle_job_is_warned_before_it_ends(messages: Messages) -> None:
    job, sentences = notices(watching(*IDLE), reports(0, seen(1)), reports(1, seen(1)))
    messages.check(*sentences[1])
    assert not sentences[0]
    assert after(job, reports(0, seen(0), seen(1)), reports(1, seen(0), seen(1))).reason is Reason.STOPPED_EARLY


def test_condition_that_the_plan_lacks_changes_nothing() -> None:
    job = watching(NAN)
    assert after(job, reports(0, seen(7))).state is State.RUNNING
    assert told(job, reports(0, seen(7))) == Decision(after(job, reports(0, seen(7))))
