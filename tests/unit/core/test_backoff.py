"""How long a job waits before another try, where the same failure recurs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drumbeat.core.end_verdict import Verdict
from drumbeat.core.lifecycle import backoff
from drumbeat.core.lifecycle.events import CancelRequested, NodeLost, Placed, RetryDue, StatusReported, StopGang, TimeUp
from drumbeat.core.lifecycle.job import Failure, Job
from drumbeat.core.lifecycle.state_machine import decide
from drumbeat.core.scheduling.resource_needs import JobPolicy
from drumbeat.model.agent import Phase
from drumbeat.model.states import Reason, State
from tests.support.messages import Messages

from .jobs import a_job, after, at, killed, running, said, slots

pytestmark = pytest.mark.feature("F2")

KILLED, LOST, PREEMPTED, LACKING = Reason.RANK_KILLED, Reason.NODE_LOST, Reason.PREEMPTED, Reason.SHARE_MISSING
POLICY = JobPolicy(max_retries=9, retry_delay_s=10, max_retry_delay_s=60)


def delays(*failures: tuple[float, Reason], policy: JobPolicy = POLICY) -> list[float]:
    """The wait after each of these failures. Each at its second."""
    kept = [Failure(1, n, Verdict(reason, "x"), at(second)) for n, (second, reason) in enumerate(failures, 1)]
    return [backoff.delay(kept[: n + 1], policy).total_seconds() for n in range(len(kept))]


@pytest.mark.parametrize(
    ("failures", "waits"),
    [
        ([(0, KILLED)], [0]),
        ([(0, KILLED), (5, KILLED), (20, KILLED), (45, KILLED), (99, KILLED), (200, KILLED)], [0, 10, 20, 40, 60, 60]),
        ([(0, KILLED), (599, KILLED), (1208, KILLED)], [0, 10, 20]),
        ([(0, KILLED), (600, KILLED), (1200, KILLED)], [0, 0, 0]),
        ([(0, KILLED), (5, KILLED), (615, KILLED), (620, KILLED)], [0, 10, 0, 10]),
        ([(0, KILLED), (5, LOST), (9, PREEMPTED), (12, Reason.RANK_FAILED)], [0, 0, 0, 0]),
        ([(0, KILLED), (5, LOST), (9, KILLED), (20, LOST)], [0, 0, 10, 10]),
        ([(0, PREEMPTED), (60, PREEMPTED), (120, PREEMPTED)], [0, 0, 0]),
        ([(0, PREEMPTED), (59, PREEMPTED), (100, PREEMPTED)], [0, 10, 20]),
        ([(0, LACKING), (1, LACKING), (2, LACKING)], [0, 0, 0]),
        ([(9, KILLED), (5, KILLED)], [0, 10]),
    ],
    ids=["first", "doubles to the cap", "within the time", "not within it", "afterwards first again", "other kinds",
         "kinds apart", "preempted", "preempted fast", "other machines", "clock set back"],
)  # fmt: skip
def test_failure_that_recurs_waits_twice_as_long_each_time(failures: list[tuple[float, Reason]], waits: list[float]):
    assert delays(*failures) == waits


def test_job_in_the_queue_has_waited_for_nodes_since_its_back_off_ended():
    job = replace(running(1, 1), policy=POLICY)
    assert backoff.queued_since(job) == job.submitted_at
    lost = [Failure(1, n, Verdict(LOST, "x"), at(second)) for n, second in enumerate((100, 105), 1)]
    assert backoff.queued_since(replace(job, failures=tuple(lost[:1]))) == at(100)
    assert backoff.queued_since(replace(job, failures=tuple(lost))) == at(115)


def test_job_that_sets_no_delay_never_waits():
    assert delays(*[(n, KILLED) for n in range(5)], policy=replace(POLICY, retry_delay_s=0)) == [0] * 5


def test_delay_of_countless_failures_stays_at_the_cap():
    assert delays(*[(n, LOST) for n in range(400)])[-1] == 60


def kill(round_: int) -> StatusReported:
    return said(0, Phase.ENDED, round_, exits=(killed(0, 9), killed(1, 9)))


def waiting(**policy: object) -> Job:
    """A job whose ranks were killed twice, at second 0: it waits for 10 seconds. Its node is ready."""
    job = running(1, 2, **policy)
    job = after(job, kill(1), said(0, Phase.READY, 2))
    assert (job.state, job.round) == (State.RUNNING, 2)
    return after(job, kill(2), said(0, Phase.READY, 3))


def test_second_kill_waits_before_the_ranks_start_again_on_their_nodes(messages: Messages):
    job = waiting()
    assert (job.state, job.reason, job.retry_at) == (State.STAGING, Reason.BACKING_OFF, at(10))
    messages.check(job.sentence)
    due = decide(job, RetryDue(), at(10))
    assert (due.job.state, due.job.round, due.job.retry_at) == (State.RUNNING, 3, None)
    messages.check(*[line.sentence for line in due.events])
    assert decide(due.job, RetryDue(), at(11)).events == ()


def test_node_that_gets_ready_after_the_wait_starts_its_ranks_then():
    job = replace(waiting(), nodes=(None,))
    due = decide(job, RetryDue(), at(10)).job
    assert (due.state, due.reason) == (State.STAGING, Reason.RESTARTING_RANKS)
    assert after(due, said(0, Phase.READY, 3)).state is State.RUNNING


def test_wait_ends_at_once_when_the_job_is_canceled():
    canceling = decide(waiting(), CancelRequested("ada"), at(1)).job
    assert (canceling.state, canceling.retry_at) == (State.FINALIZING, None)
    assert after(canceling, said(0, Phase.UPLOADED, 3)).state is State.CANCELED


def test_wait_ends_at_the_time_limit_of_the_job():
    ending = decide(waiting(timeout_s=5.0), TimeUp(), at(5)).job
    assert (ending.state, ending.retry_at) == (State.FINALIZING, None)
    assert after(ending, said(0, Phase.UPLOADED, 3)).reason is Reason.TIMED_OUT


def lost_twice(**policy: object) -> Job:
    """A job that has lost its node twice, at second 0: it waits in the queue."""
    job = after(running(1, 1, **policy), NodeLost(1, 0, "no power"))
    assert (job.state, job.reason) == (State.QUEUED, Reason.REPLACING_NODES)
    return after(job, Placed(slots(1)), said(0, Phase.READY, attempt=2), NodeLost(2, 0, "no power"))


def test_second_loss_of_a_node_waits_outside_the_queue(messages: Messages):
    job = lost_twice()
    assert (job.state, job.reason, job.retry_at) == (State.QUEUED, Reason.BACKING_OFF, at(10))
    messages.check(job.sentence)
    due = decide(job, RetryDue(), at(10)).job
    assert (due.state, due.reason, due.retry_at) == (State.QUEUED, Reason.REPLACING_NODES, None)


@pytest.mark.parametrize(("event", "state"), [(CancelRequested("ada"), State.CANCELED), (TimeUp(), State.FAILED)])
def test_wait_for_other_nodes_ends_at_once_where_the_job_ends(event: CancelRequested | TimeUp, state: State):
    ended = decide(lost_twice(timeout_s=5.0), event, at(5)).job
    assert (ended.state, ended.retry_at) == (state, None)


def lost_once(**policy: object) -> Job:
    """A job whose ranks have run, and whose node was lost at second 0: it asks for another one."""
    return after(running(1, 1, **policy), NodeLost(1, 0, "no power"))


def test_time_limit_ends_a_job_that_waits_for_nodes_of_a_later_attempt(messages: Messages):
    queued = lost_once(timeout_s=60.0)
    assert (queued.state, queued.retry_at, queued.deadline) == (State.QUEUED, None, at(60))
    starting = after(queued, Placed(slots(1)))
    preparing = after(starting, said(0, Phase.ENROLLED, attempt=2))
    assert [starting.state, preparing.state] == [State.PROVISIONING, State.STAGING]
    for job in (queued, starting, preparing):
        late = decide(job, TimeUp(), at(60))
        assert (late.job.state, late.job.reason) == (State.FAILED, Reason.TIMED_OUT)
        messages.check(late.job.sentence)
    assert StopGang(2) in decide(starting, TimeUp(), at(60)).effects


def test_time_limit_does_not_count_before_the_first_start_of_the_ranks():
    queued = a_job(1, 1, timeout_s=60.0)
    starting = after(queued, Placed(slots(1)))
    for job in (queued, starting, after(starting, said(0, Phase.ENROLLED))):
        assert decide(job, TimeUp(), at(9999)).job == job


def test_node_lost_while_the_ranks_wait_is_replaced_at_once():
    job = decide(waiting(), NodeLost(1, 0, "no power"), at(2)).job
    assert (job.state, job.reason, job.retry_at) == (State.QUEUED, Reason.REPLACING_NODES, None)
