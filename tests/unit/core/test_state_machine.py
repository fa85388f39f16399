"""The life of a job, event by event."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drumbeat.core.lifecycle.directive import directive
from drumbeat.core.lifecycle.events import (
    CancelRequested,
    Event,
    GangObserved,
    GangRefused,
    KeepEvents,
    Loss,
    NeverFits,
    NodeDeparture,
    NodeLost,
    Placed,
    PlacementDeferred,
    StartGang,
    StopGang,
    TimeUp,
)
from drumbeat.core.lifecycle.exit_code import exit_code
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.lifecycle.state_machine import decide
from drumbeat.core.lifecycle.transitions import is_same_trouble
from drumbeat.model.agent import NodeMessage, Order, Phase
from drumbeat.model.plan import Rank
from drumbeat.model.states import Reason, State
from tests.support.messages import Messages

from .jobs import RAISED, a_job, after, at, done, ended, running, said, slots, told


# --- the straight way -------------------------------------------------------------------------------------------
def test_successful_job_passes_every_state():
    decision = told(
        a_job(),
        Placed(slots()),
        said(0, Phase.ENROLLED), said(1, Phase.ENROLLED),
        said(0, Phase.READY), said(1, Phase.READY),
        said(0, Phase.RUNNING), said(1, Phase.RUNNING),
        done(0, 0, 0), done(1, 0, 0),
        said(0, Phase.UPLOADED), said(1, Phase.UPLOADED),
    )  # fmt: skip
    assert [entry.state for entry in decision.events] == [
        State.PROVISIONING, State.STAGING, State.RUNNING, State.FINALIZING, State.COMPLETED,
    ]  # fmt: skip
    assert [type(effect) for effect in decision.effects] == [StartGang, StopGang, KeepEvents]
    assert exit_code(decision.job) == 0
    assert decision.job.effects == 3


def test_job_with_agents_ready_at_their_first_report_passes_every_state():
    decision = told(a_job(nodes=1), Placed(slots(1)), said(0, Phase.READY))
    assert [entry.state for entry in decision.events] == [State.PROVISIONING, State.STAGING, State.RUNNING]


def test_the_roster_has_every_node_in_order_and_the_port_of_node_0():
    roster = running().roster
    assert roster is not None
    assert [m.node for m in roster.members] == [0, 1]
    assert (roster.port, roster.master.address) == (29500, "10.0.0.1")


def test_queued_job_has_the_reason_of_its_wait():
    job = after(a_job(), PlacementDeferred(Reason.WAITING_FOR_SLOTS, "needs 2"))
    assert (job.state, job.reason, job.sentence) == (State.QUEUED, Reason.WAITING_FOR_SLOTS, "needs 2")
    assert told(job, PlacementDeferred(Reason.WAITING_FOR_SLOTS, "needs 2")).events == ()


def test_a_job_that_will_never_fit_fails_at_once():
    job = after(a_job(), NeverFits("too many"))
    assert (job.state, job.reason, exit_code(job)) == (State.FAILED, Reason.TOO_BIG, 1)


@pytest.mark.feature("C3")
def test_no_rank_starts_before_every_node_is_ready():
    job = after(a_job(3), Placed(slots(3)), said(0, Phase.READY), said(2, Phase.READY))
    assert job.roster is None
    assert directive(job).order is Order.PREPARE


def test_error_with_a_full_stop_is_joined_into_one_sentence(messages: Messages):
    failing = said(0, Phase.STAGING, error="no such folder. Name another one.")
    job = after(a_job(1), Placed(slots(1)), failing)
    messages.check(job.sentence)


@pytest.mark.feature("F10")
def test_unreachable_store_is_a_transient_failure(messages: Messages):
    word = "input train: no answer from the store; no byte came for 600 s"
    job = after(a_job(1), Placed(slots(1)), said(0, Phase.STAGING, error=word, is_transient=True))
    assert (job.state, job.reason) == (State.FAILED, Reason.OUT_OF_REACH)
    messages.check(job.sentence)


# --- ranks that serve -------------------------------------------------------------------------------------------
def served() -> Job:
    """Two nodes with a worker each; the second one has a parameter server too. All are running."""
    job = running(per_node=1)
    server = Rank(2, 1, 1, "ps", serves=True)
    return replace(job, plan=replace(job.plan, ranks=(*job.plan.ranks, server)))


@pytest.mark.feature("L5")
@pytest.mark.feature("L8")
def test_ranks_that_serve_are_stopped_when_the_others_have_ended_well(messages: Messages):
    job = after(served(), done(0, 0), said(1, Phase.RUNNING, exits=(ended(1),)))
    assert (job.state, job.reason) == (State.STOPPING, Reason.FINISHED)
    messages.check(job.sentence)
    killed = ended(2, None, signal=15, is_stopped=True)
    job = after(job, said(1, Phase.ENDED, exits=(ended(1), killed)))
    assert job.state is State.FINALIZING
    job = after(job, said(0, Phase.UPLOADED), said(1, Phase.UPLOADED))
    assert (job.state, job.reason, exit_code(job), job.failures) == (State.COMPLETED, Reason.FINISHED, 0, ())


@pytest.mark.feature("L5")
@pytest.mark.parametrize("code", [0, 1])
def test_serving_rank_that_ends_with_the_others_is_no_failure(code: int):
    job = after(served(), said(1, Phase.ENDED, exits=(ended(1), ended(2, code))), done(0, 0))
    if code:  # It was heard of before node 0 told that all was done.
        assert job.state is State.FINALIZING
    assert job.verdict is not None
    assert job.verdict.reason is Reason.FINISHED


@pytest.mark.feature("L5")
def test_serving_rank_that_fails_while_needed_is_the_cause():
    job = after(served(), said(1, Phase.RUNNING, exits=(ended(2, 1, tail=RAISED),)))
    assert job.state is State.STOPPING
    assert job.verdict is not None
    assert (job.verdict.reason, job.verdict.rank) == (Reason.RANK_FAILED, 2)


@pytest.mark.parametrize("lost", [(0,), (0, 1)])
def test_node_lost_while_servers_are_stopped_loses_the_results(lost: tuple[int, ...], messages: Messages):
    job = after(served(), done(0, 0), said(1, Phase.RUNNING, exits=(ended(1),)))
    gone = after(job, *(NodeLost(1, node, "no power") for node in lost))
    left = [said(1, phase, exits=(ended(1), ended(2, 143))) for phase in (Phase.ENDED, Phase.UPLOADED)]
    ends = gone if len(lost) == 2 else after(gone, *left)
    assert (ends.state, ends.failures) == (State.FAILED, ())
    messages.check(ends.sentence)


@pytest.mark.parametrize("is_last", [False, True])
def test_node_lost_before_all_ranks_are_known_to_have_ended_fails_the_round(is_last: bool, messages: Messages):
    """Found by the simulator with seeds 5055082 and 5156741."""
    job = after(served(), said(1, Phase.ENDED, exits=(ended(1), ended(2, 1))))
    assert (job.state, job.reason) == (State.STOPPING, Reason.RANK_FAILED)
    gone = NodeLost(1, 1, "no power")
    if is_last:
        job = after(job, said(0, Phase.RUNNING, exits=(ended(0),)), NodeLost(1, 0, "no power"), gone)
    else:
        job = after(job, gone, done(0, 0), said(0, Phase.UPLOADED, exits=(ended(0),)))
    assert (job.state, job.reason, job.failures) == (State.FAILED, Reason.RESULTS_LOST, ())
    messages.check(job.sentence)


def test_new_attempt_begins_without_an_observed_state():
    job = after(a_job(), Placed(slots()), NodeLost(1, 0, "no power"), GangObserved(1, "running"))
    assert (job.state, job.observed is not None) == (State.QUEUED, True)
    assert after(job, Placed(slots())).observed is None


def test_cancel_while_servers_are_stopped_doesnt_undo_what_has_ended_well():
    job = after(served(), done(0, 0), said(1, Phase.RUNNING, exits=(ended(1),)), CancelRequested("ada"))
    assert job.verdict is not None
    assert job.verdict.reason is Reason.FINISHED


def test_roster_has_every_port_that_a_node_holds():
    ready = [said(0, Phase.READY, more_ports=(7, 8)), said(1, Phase.READY)]
    roster = after(a_job(), Placed(slots()), *ready).roster
    assert roster is not None
    assert (roster.held(0), roster.held(1)) == ((29500, 7, 8), (29501,))


# --- cancel and time limit --------------------------------------------------------------------------------------
@pytest.mark.feature("F7")
def test_cancel_while_running_waits_for_the_ranks_and_keeps_their_results():
    job = after(running(), CancelRequested("ada"), now=at(10))
    assert job.state is State.STOPPING
    assert job.stop_at == at(40)
    assert directive(job).order is Order.STOP
    job = after(job, done(0, 1, 1), done(1, 1, 1))
    assert job.state is State.FINALIZING
    job = after(job, said(0, Phase.UPLOADED), said(1, Phase.UPLOADED))
    assert (job.state, job.reason, exit_code(job)) == (State.CANCELED, Reason.CANCEL_REQUESTED, 130)


@pytest.mark.parametrize("events", [[], [Placed(slots())], [Placed(slots()), said(0, Phase.READY)]])
def test_cancel_before_the_ranks_run_ends_the_job_at_once(events: list[Event]):
    decision = told(a_job(), *events, CancelRequested("ada"))
    assert decision.job.state is State.CANCELED
    assert any(isinstance(effect, StopGang) for effect in decision.effects) == bool(events)


def test_cancel_outranks_a_failure_that_would_be_tried_again():
    failing = after(running(), said(0, Phase.RUNNING, exits=(ended(0, 1, tail=RAISED),)))
    job = after(failing, CancelRequested("ada"), done(0, 1, 1), done(1, 1, 1))
    assert job.state is State.FINALIZING
    assert job.verdict is not None
    assert job.verdict.reason is Reason.CANCEL_REQUESTED


def test_a_time_limit_counts_from_the_first_start_of_the_ranks():
    job = running(timeout_s=60.0)
    assert job.deadline == at(60)
    assert told(running(), TimeUp()).events == ()
    late = after(job, TimeUp(), now=at(60))
    assert (late.state, late.reason) == (State.STOPPING, Reason.TIMED_OUT)
    over = after(late, done(0, 0, 0), done(1, 0, 0), said(0, Phase.UPLOADED), said(1, Phase.UPLOADED))
    assert (over.state, exit_code(over)) == (State.FAILED, 124)


@pytest.mark.parametrize(("limit_s", "says"), [(1.5, "1.5 s"), (3600.0, "3600 s"), (14 * 86400.0, "1209600 s")])
def test_time_limit_is_always_given_in_seconds(limit_s: float, says: str, messages: Messages):
    late = after(running(timeout_s=limit_s), TimeUp())
    messages.check(late.sentence)


# --- fences -----------------------------------------------------------------------------------------------------
def test_words_of_an_old_attempt_change_nothing():
    job = running()
    for event in (said(0, Phase.ENDED, attempt=0), NodeLost(0, 0, "x"), GangObserved(0, "x"), GangRefused(0, "x")):
        assert decide(job, event, at(5)).job == job


def test_words_of_an_old_round_start_nothing():
    job = after(running(), done(0, 1, 0), done(1, 0, 0))
    assert after(job, said(0, Phase.READY, 1), said(1, Phase.READY, 1)).state is State.STAGING


def test_late_report_with_an_older_serial_changes_nothing():
    job = after(running(), done(0, 0, 0), said(1, Phase.ENDED, serial=7, exits=(ended(2, 0), ended(3, 0))))
    assert job.state is State.FINALIZING
    assert decide(job, said(1, Phase.RUNNING, serial=6), at(1)).job == job


def test_replacing_a_node_frees_what_the_attempt_held():
    job = after(running(), NodeLost(1, 0, "gone"), NodeLost(1, 1, "gone"))
    assert (job.state, job.slots, job.nodes, job.avoided) == (State.QUEUED, (), (), ("m",))


# --- engines with a queue of their own --------------------------------------------------------------------------
@pytest.mark.feature("C3")
def test_a_gang_in_its_engine_s_queue_says_what_it_waits_for(messages: Messages):
    waiting = told(after(a_job(), Placed(slots())), GangObserved(1, "PENDING (Resources)", waits=True))
    assert (waiting.job.state, waiting.job.reason) == (State.PROVISIONING, Reason.IN_QUEUE)
    messages.check(waiting.events[-1].sentence)
    other = told(waiting.job, GangObserved(1, "PENDING (Priority)", waits=True))
    assert "Priority" in other.job.sentence
    assert told(other.job, GangObserved(1, "PENDING (Priority)", waits=True)).events == ()
    started = after(other.job, GangObserved(1, "RUNNING"))
    assert started.reason == Reason.STARTING_NODES
    messages.check(started.sentence)


def test_numbers_of_a_waiting_gang_that_change_are_no_news(messages: Messages):
    full = "Unschedulable (0/57 nodes are available: {} Insufficient cpu, {} Insufficient nvidia.com/gpu)"
    waiting = after(a_job(), Placed(slots()), GangObserved(1, full.format(3, 54), waits=True))
    later = told(waiting, GangObserved(1, full.format(12, 45), waits=True))
    assert later.events == ()
    assert later.job.observed
    assert later.job.observed.word == full.format(12, 45)
    messages.check(later.job.sentence)
    assert told(later.job, GangObserved(1, "Unschedulable (node is cordoned)", waits=True)).events
    asked = after(a_job(), Placed(slots()), GangObserved(1, "it asks again in 30 s", is_asked=False))
    again = told(asked, GangObserved(1, "it asks again in 29 s", is_asked=False))
    assert again.events == ()
    messages.check(again.job.sentence)
    assert told(asked, GangObserved(1, "the API server doesn't answer", is_asked=False)).events


@pytest.mark.parametrize(
    ("before", "after", "is_same"),
    [
        ("0/57 nodes are available: 3 busy, 54 full.", "2/58 nodes are available: 13 busy, 45 full.", True),
        ("it asks again in 29.5 s (9 times)", "it asks again in 1,030 s (10 times)", True),
        ("0/9 nodes are available: 3 Too many pods, 6 busy", "0/9 nodes are available: 2 Too many pods, 7 busy", True),
        ("needs 12%; 3", "needs 8%; 4", True),
        ("node3 didn't start in time", "node5 didn't start in time", False),
        ("gpu1 can't be used", "gpu2 can't be used", False),
        ("gpu-1 can't be used", "gpu-2 can't be used", False),
        ("10.0.0.1 doesn't answer", "10.0.0.2 doesn't answer", False),
        ("10.0.0.1:22 doesn't answer", "10.0.0.1:23 doesn't answer", False),
        ("begins at 09:17", "begins at 09:18", False),
        ("Slurm job 17 failed", "Slurm job 18 failed", False),
        ("nodes 3, 4 and 5 are down", "nodes 3, 4 and 6 are down", False),
        ("exit code 1", "exit code 2", False),
        ("[Errno 28] x", "[Errno 29] x", False),
        ("HTTP 503", "HTTP 404", False),
        ("train.2", "train.3", False),
    ],
)
def test_same_trouble_differs_in_counts_at_most(before: str, after: str, is_same: bool):
    assert is_same_trouble(before, after) is is_same


GONE = [
    (Loss.LOST, State.QUEUED, Reason.NODE_LOST, None),
    (Loss.UNHEARD, State.QUEUED, Reason.NODE_UNHEARD, None),
    (Loss.PREEMPTED, State.QUEUED, Reason.PREEMPTED, None),
    (Loss.TIMED_OUT, State.FAILED, Reason.TIMED_OUT, 124),
    (Loss.CANCELED, State.CANCELED, Reason.CANCELED_OUTSIDE, 130),
    (Loss.OUT_OF_MEMORY, State.FAILED, Reason.OUT_OF_MEMORY, 137),
    (Loss.FAILED, State.FAILED, Reason.NODES_FAILED, 1),
]


def test_every_loss_has_a_row():
    assert {row[0] for row in GONE} == set(Loss)


@pytest.mark.feature("C6", "F2")
@pytest.mark.parametrize(("cause", "state", "reason", "code"), GONE)
@pytest.mark.parametrize("is_running", [False, True])
def test_loss_of_all_nodes_is_a_retry_or_the_end_by_its_cause(
    cause: Loss, state: State, reason: Reason, code: int | None, is_running: bool
):
    """Without retries left: what the cluster did isn't the job's failure."""
    job = running(max_retries=0) if is_running else after(a_job(max_retries=0), Placed(slots()))
    job = after(job, NodeLost(1, 0, "it was so", cause), NodeLost(1, 1, "it was so", cause))
    assert job.state is state
    if state is State.QUEUED:
        assert [one.verdict.reason for one in job.failures] == [reason]
        assert "doesn't count as a retry" in job.sentence
    else:
        assert (job.reason, exit_code(job)) == (reason, code)
        assert "it was so" in job.sentence


@pytest.mark.feature("C6")
@pytest.mark.parametrize("first", ["ranks", "agents"])
def test_ranks_that_end_as_their_nodes_are_taken_are_not_the_cause(first: str):
    """Slurm tells agents and ranks at once; who is heard of first is chance."""
    killed = {"exits": (ended(0, None, signal=15), ended(1, None, signal=15))}
    job = running(max_retries=0)
    if first == "ranks":
        job = after(job, said(1, Phase.RUNNING, **killed))
        assert job.reason is Reason.RANK_KILLED
    job = after(
        job, said(0, Phase.ENDED, is_preempted=True, **killed), said(1, Phase.ENDED, is_preempted=True, **killed)
    )
    assert job.state is State.STOPPING, "its engine will say what for"
    job = after(job, NodeLost(1, 0, "preempted", Loss.PREEMPTED), NodeLost(1, 1, "preempted", Loss.PREEMPTED))
    assert job.state is State.QUEUED
    assert [one.verdict.reason for one in job.failures] == [Reason.PREEMPTED]


def test_preempted_node_with_a_new_agent_gets_a_new_round():
    job = after(running(), said(0, Phase.RUNNING, is_preempted=True))
    assert (job.state, job.reason) == (State.STOPPING, Reason.NODE_TAKEN)
    job = after(job, said(0, Phase.ENDED), said(1, Phase.ENDED))
    assert (job.state, job.reason, job.round) == (State.STAGING, Reason.RESTARTING_RANKS, 2)
    assert "doesn't count as a retry" in job.sentence


@pytest.mark.feature("L2", "L6")
def test_nodes_that_let_each_other_in_stay_until_the_ranks_of_all_have_ended(messages: Messages):
    job = after(running(2, 1), said(1, Phase.RUNNING, exits=(ended(1),)))
    assert job.state is State.RUNNING
    job = after(job, said(0, Phase.RUNNING, exits=(ended(0),)))
    assert job.state == State.STOPPING
    messages.check(job.sentence)
    job = after(job, said(0, Phase.ENDED, exits=(ended(0),)), said(1, Phase.ENDED, exits=(ended(1),)))
    assert (job.state, job.reason) == (State.FINALIZING, Reason.KEEPING_RESULTS)


@pytest.mark.feature("L2")
def test_smaller_world_than_intended_is_in_the_events_and_in_the_last_sentence(messages: Messages):
    message = NodeMessage("world", "accelerate was asked for 2 processes, and the world has 1")
    first = told(running(1, 1), said(0, Phase.RUNNING, messages=(message,)))
    assert [entry.sentence for entry in first.events] == [f"node 0: {message.sentence}"]
    assert told(first.job, said(0, Phase.RUNNING, messages=(message,))).events == ()
    last = after(first.job, said(0, Phase.ENDED, exits=(ended(0),), messages=(message,)))
    assert last.verdict is not None
    messages.check(last.verdict.sentence)
    last = after(first.job, said(0, Phase.ENDED, exits=(ended(0, 1),), messages=(message,)))
    messages.check(last.failures[-1].verdict.sentence)


@pytest.mark.feature("C6")
@pytest.mark.parametrize("is_running", [False, True])
def test_a_node_whose_machine_leaves_is_stopped_in_time_and_replaced(is_running: bool):
    job = running(max_retries=0) if is_running else after(a_job(max_retries=0), Placed(slots()))
    job = after(job, NodeDeparture(1, 1, "machine m leaves: a reboot is scheduled"))
    if is_running:
        assert (job.state, job.reason) == (State.STOPPING, Reason.PREEMPTED)
        assert "SIGTERM to every rank" in job.sentence
        job = after(job, said(0, Phase.ENDED, exits=(ended(0, 143),)), NodeLost(1, 1, "it has left", Loss.PREEMPTED))
    assert job.state is State.QUEUED
    assert [one.verdict.reason for one in job.failures] == [Reason.PREEMPTED]
    assert "doesn't count as a retry" in job.sentence


@pytest.mark.feature("C6")
def test_notice_of_a_machine_is_the_reason_of_its_nodes_stop(messages: Messages):
    job = after(running(), said(0, Phase.RUNNING, is_preempted=True), NodeDeparture(1, 0, "machine m leaves: a reboot"))
    assert job.verdict is not None
    assert job.verdict.reason == Reason.PREEMPTED
    messages.check(job.verdict.sentence)  # fmt: skip


@pytest.mark.feature("C6")
def test_announced_preemption_is_one_event():
    notice = "Slurm will take the nodes away for another job"
    job = running()
    first = decide(job, GangObserved(1, "RUNNING", notice=notice), at(9))
    assert [line.sentence for line in first.events] == [notice]
    assert first.job.state is State.RUNNING
    assert decide(first.job, GangObserved(1, "RUNNING", notice=notice), at(10)).events == ()
