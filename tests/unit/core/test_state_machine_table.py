"""The table of states itself: nothing leaves it, whatever comes in whatever order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from drumbeat.core.lifecycle.events import (
    CancelRequested,
    Event,
    GangObserved,
    GangRefused,
    JudgeDue,
    Loss,
    NeverFits,
    NodeDeparture,
    NodeLost,
    NodesNotConnected,
    Placed,
    PlacementDeferred,
    RetryDue,
    TimeUp,
)
from drumbeat.core.lifecycle.exit_code import exit_code
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.lifecycle.state_machine import decide
from drumbeat.core.lifecycle.verdict_rules import REASON_OF_LOSS
from drumbeat.core.reason_table import MOVES, REASONS
from drumbeat.model.agent import Phase
from drumbeat.model.states import Reason, Retry, State

from .jobs import PEER_GONE, a_job, at, ended, said, slots


def test_every_reason_has_a_row_and_every_state_can_end():
    assert set(REASONS) == set(Reason)
    assert set(MOVES) == set(State)
    for state in State:
        reached, open_states = set[State](), {state}
        while open_states:
            reached |= open_states
            open_states = {to for at_state in open_states for to in MOVES[at_state]} - reached
        assert any(s.is_terminal for s in reached)


def test_columns_of_reasons_agree_with_each_other():
    for reason, row in REASONS.items():
        assert row.retry is Retry.NEVER or row.ends is State.FAILED, reason
        assert not row.is_final or (row.ends, row.retry) == (State.FAILED, Retry.NEVER), reason
        assert not row.takes_nodes or row.retry in (Retry.FREE, Retry.OWN), reason
        assert row.code is None or row.ends in (State.FAILED, State.CANCELED), reason


def test_every_loss_has_a_reason():
    assert set(REASON_OF_LOSS) == set(Loss)


def test_every_state_is_reachable():
    assert {to for moves in MOVES.values() for to in moves} | {State.QUEUED} == set(State)


NODES = 2
codes = st.sampled_from([None, 0, 0, 0, 1, 127, 137, 3])


def agent_said(
    node: int,
    phase: Phase,
    nth: int,
    attempt: int,
    codes: list[int | None],
    error: str,
    lost: bool,
    taken: bool,
) -> Event:
    exits = tuple(
        ended(node * 2 + n, c, signal=9 if c is None else None, tail=PEER_GONE if c == 3 else "")
        for n, c in enumerate(codes)
    )
    return said(node, phase, nth, attempt, exits=exits, error=error, lost=lost, is_preempted=taken)


agent_events = st.builds(
    agent_said,
    st.integers(0, NODES - 1), st.sampled_from(list(Phase)), st.integers(1, 3), st.integers(0, 2),
    st.lists(codes, max_size=2), st.sampled_from(["", "", "", "broken"]), st.sampled_from([False, False, True]),
    st.sampled_from([False, False, False, True]),
)  # fmt: skip
other_events = st.one_of(
    st.just(Placed(slots())),
    st.builds(
        PlacementDeferred, st.sampled_from([Reason.WAITING_FOR_SLOTS, Reason.WAITING_FOR_TURN]), st.just("waits")
    ),
    st.just(NeverFits("never")),
    st.builds(NodesNotConnected, st.integers(0, 2), st.text(min_size=1, max_size=5)),
    st.builds(GangObserved, st.integers(0, 2), st.text(max_size=5), st.booleans()),
    st.builds(GangRefused, st.integers(0, 2), st.just("refused")),
    st.builds(NodeDeparture, st.integers(0, 2), st.integers(0, NODES - 1), st.just("a reboot is scheduled")),
    st.builds(NodeLost, st.integers(0, 2), st.integers(0, NODES - 1), st.just("gone"), st.sampled_from(Loss)),
    st.just(CancelRequested("ada")),
    st.just(TimeUp()),
    st.just(JudgeDue()),
    st.just(RetryDue()),
)


@given(st.lists(st.one_of(agent_events, agent_events, other_events), max_size=40), st.sampled_from([None, 5.0]))
def test_random_event_orders_stay_on_the_table(events: list[Event], timeout_s: float | None):
    job, effects = a_job(timeout_s=timeout_s), 0
    for second, event in enumerate(events):
        decision = decide(job, event, at(second))
        check_step(job, decision.job)
        effects += len(decision.effects)
        assert decision.job.effects == effects
        for entry in decision.events:
            assert entry.sentence, entry
        job = decision.job


@given(st.lists(st.one_of(agent_events, other_events), max_size=30))
def test_repeated_event_changes_nothing(events: list[Event]):
    job = a_job()
    for event in events:
        once = decide(job, event, at(1)).job
        if isinstance(event, type(said(0, Phase.READY))) and once.state is job.state:
            assert decide(once, event, at(1)).job == once
        job = once


def check_step(before: Job, now: Job) -> None:
    assert now.state is before.state or now.state in MOVES[before.state] or passes_through(before, now)
    assert (now.attempt, now.round if now.attempt == before.attempt else 1) >= (before.attempt, 0)
    if before.state.is_terminal:
        assert now == before
    if now.state.is_terminal:
        assert exit_code(now) is not None
        assert now.ended_at is not None
        assert now.verdict is not None
    assert (now.judge_at is not None) == (now.state is State.RUNNING and any(one.is_failure for _, one in now.exits))
    if now.state is State.RUNNING:
        assert now.roster is not None
        assert (now.roster.attempt, now.roster.round) == (now.attempt, now.round)
        assert len(now.roster.members) == NODES
    if now.state in (State.STOPPING, State.FINALIZING):
        assert now.verdict is not None


def passes_through(before: Job, now: Job) -> bool:
    """Two moves in one event: everybody enrolled and ready in one breath, or nobody left to wait for."""
    return any(now.state in MOVES[middle] for middle in MOVES[before.state])
