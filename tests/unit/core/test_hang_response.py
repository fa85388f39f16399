"""What follows a hang in the life of a job: a line of the story once, or another round."""

from dataclasses import replace

import pytest

from drumbeat.core.lifecycle.events import CancelRequested, Decision, StallObserved, TimeUp, ValueLogged
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.lifecycle.state_machine import decide
from drumbeat.model.agent import Phase
from drumbeat.model.states import Reason, State
from tests.support.messages import Messages

from .jobs import after, at, ended, running, said

pytestmark = pytest.mark.feature("F4")

HANG = StallObserved(1, 1, "the job hangs: rank 1 on node 0 is stopped", is_hang=True, is_certain=True, rank=1, node=0)
SLOW = StallObserved(1, 1, "silent for 600 s: rank 1 on node 0 computes", is_hang=False, rank=1, node=0)
STUCK = StallObserved(
    1, 1, "the rendezvous timed out", is_hang=True, is_certain=True, is_rendezvous=True, rank=1, node=0
)
OVER = StallObserved(1, 1, "the ranks go on", is_hang=True, is_over=True)


def hanging(on_hang: str = "tell") -> Job:
    job = running(1, 2)
    return replace(job, plan=replace(job.plan, on_hang=on_hang))


def sentences(*decisions: Decision) -> list[str]:
    return [entry.sentence for one in decisions for entry in one.events]


def test_hang_is_reported_once_and_the_ranks_keep_running() -> None:
    first = decide(hanging(), HANG, at(1))
    assert (first.job.state, first.job.reason, first.job.sentence) == (State.RUNNING, Reason.HANGING, HANG.sentence)
    assert decide(first.job, HANG, at(2)) == Decision(first.job)


def test_story_has_the_beginning_of_the_silence() -> None:
    told = decide(hanging(), replace(HANG, silent_s=30.0), at(40))
    assert [line.since for line in told.events] == [at(10)]
    assert [line.since for line in decide(hanging(), HANG, at(40)).events] == [None]
    restarted = decide(hanging("restart"), replace(HANG, silent_s=30.0), at(40))
    assert [line.since for line in restarted.events] == [at(10)]


def test_slow_rank_is_reported_once_beside_a_hang() -> None:
    first = decide(hanging(), SLOW, at(1))
    second = decide(first.job, HANG, at(2))
    assert sentences(first, second, decide(second.job, SLOW, at(3))) == [SLOW.sentence, HANG.sentence]


def test_end_of_a_hang_is_reported_if_the_hang_was() -> None:
    job = hanging()
    assert decide(job, OVER, at(1)) == Decision(job)
    told = decide(job, HANG, at(1)).job
    assert sentences(decide(told, OVER, at(2))) == ["the ranks go on"]


def test_hang_restarts_the_ranks_as_a_retry() -> None:
    stopping = decide(hanging("restart"), HANG, at(1)).job
    assert (stopping.state, stopping.reason) == (State.STOPPING, Reason.RANKS_HUNG)
    exits = (ended(0, None, signal=15), ended(1, None, signal=9))
    again = after(stopping, said(0, Phase.ENDED, exits=exits))
    assert (again.state, again.round) == (State.STAGING, 2)
    assert again.failures[0].verdict.rank == 1
    assert "retry 1 of 3" in again.sentence


def test_hang_that_something_from_outside_may_end_restarts_nothing() -> None:
    uncertain = replace(HANG, is_certain=False, sentence="the job may hang: rank 1 on node 0 sleeps")
    told = decide(hanging("restart"), uncertain, at(1))
    assert (told.job.state, told.job.sentence) == (State.RUNNING, uncertain.sentence)


MAY_HANG = replace(HANG, is_certain=False, sentence="the job may hang: rank 1 on node 0 waits for a file")


@pytest.mark.parametrize("first", [HANG, MAY_HANG])
@pytest.mark.parametrize("second", [HANG, MAY_HANG])
def test_second_hang_of_a_round_is_reported_with_its_end(first: StallObserved, second: StallObserved) -> None:
    job, told = hanging(), list[Decision]()
    for minute, event in enumerate((first, OVER, second, second, OVER, OVER), 1):
        told.append(decide(job, event, at(minute)))
        job = told[-1].job
    assert sentences(*told) == [first.sentence, OVER.sentence, second.sentence, OVER.sentence]
    assert job.reason is Reason.RANKS_RUNNING


@pytest.mark.parametrize("between", [[], [OVER]])
def test_certain_hang_after_an_uncertain_one_restarts_the_ranks(between: list[StallObserved]) -> None:
    job = after(hanging("restart"), MAY_HANG, *between)
    assert job.state is State.RUNNING
    stopping = decide(job, HANG, at(2)).job
    assert (stopping.state, stopping.reason) == (State.STOPPING, Reason.RANKS_HUNG)


def test_hang_that_becomes_certain_is_reported_once_more() -> None:
    job = after(hanging(), MAY_HANG)
    certain = decide(job, HANG, at(2))
    assert sentences(certain) == [HANG.sentence]
    assert decide(certain.job, HANG, at(3)) == decide(certain.job, MAY_HANG, at(3)) == Decision(certain.job)
    assert sentences(decide(certain.job, OVER, at(4))) == [OVER.sentence]


def test_end_of_a_hang_has_no_earlier_beginning() -> None:
    job = after(hanging(), replace(HANG, silent_s=30.0))
    assert [line.since for line in decide(job, OVER, at(40)).events] == [None]


def test_hang_of_an_earlier_round_changes_nothing() -> None:
    job = replace(hanging(), round=2)
    assert decide(job, HANG, at(1)) == Decision(job)


def test_late_rendezvous_is_reported_once_a_round_and_the_ranks_keep_running() -> None:
    late = replace(STUCK, is_certain=False, sentence="the rendezvous is incomplete")
    first = decide(hanging("restart"), late, at(1))
    assert (first.job.state, first.job.reason) == (State.RUNNING, Reason.RANKS_RUNNING)
    assert sentences(first) == [late.sentence]
    assert decide(first.job, late, at(2)) == Decision(first.job)
    assert decide(first.job, STUCK, at(3)).job.state is State.STOPPING


def test_rendezvous_verdict_after_the_first_value_changes_nothing() -> None:
    trains = decide(hanging(), ValueLogged(1, 1, "rank 0 logged a value"), at(1)).job
    assert decide(trains, STUCK, at(2)) == Decision(trains)
    hangs = decide(trains, HANG, at(3)).job
    assert decide(hangs, STUCK, at(4)) == Decision(hangs)


@pytest.mark.feature("F2")
@pytest.mark.parametrize("on_hang", ["tell", "dump", "restart"])
def test_hang_at_the_rendezvous_restarts_the_ranks_as_a_retry(on_hang: str, messages: Messages) -> None:
    told = decide(hanging(on_hang), replace(HANG, is_certain=False), at(1)).job
    stopping = decide(told, STUCK, at(2)).job
    assert (stopping.state, stopping.reason) == (State.STOPPING, Reason.RENDEZVOUS_TIMED_OUT)
    exits = (ended(0, None, signal=15), ended(1, None, signal=9))
    again = after(stopping, said(0, Phase.ENDED, exits=exits))
    assert (again.state, again.round, again.failures[0].verdict.rank) == (State.STAGING, 2, 1)
    messages.check(again.sentence)


def test_end_from_outside_names_the_hang_of_the_job(messages: Messages) -> None:
    hung = decide(hanging(), HANG, at(1)).job
    canceled = decide(hung, CancelRequested("root"), at(2)).job
    assert canceled.verdict
    assert canceled.verdict.reason is Reason.CANCEL_REQUESTED
    messages.check(canceled.verdict.sentence)
    may = replace(HANG, sentence="the job may hang: rank 1 sleeps", is_certain=False)
    limited = replace(decide(hanging(), may, at(1)).job, policy=replace(hung.policy, timeout_s=60))
    out = decide(limited, TimeUp(), at(61)).job.verdict
    assert out
    messages.check(out.sentence)
    over = decide(hung, OVER, at(2)).job
    after_it = decide(over, CancelRequested("root"), at(3)).job.verdict
    assert after_it
    assert after_it.sentence == "canceled by root"
