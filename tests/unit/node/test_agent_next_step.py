"""What the agent does next and says of itself, as tables."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumbeat.model.agent import Directive, Order, Phase, RankExit
from drumbeat.model.roster import Member
from drumbeat.node.agent.next_step import AgentAction, AttemptFacts, RoundFacts, WorkState, next_step, phase, status

MEMBER = Member(0, "host", "10.0.0.1", "/root", "/checkpoints")


def want(order: Order, round: int = 1) -> Directive:
    return Directive(order, 1, round)


def facts(staging: WorkState = WorkState.DONE, upload: WorkState = WorkState.NONE, **of_round: object) -> AttemptFacts:
    return AttemptFacts(staging, upload, RoundFacts(1, **of_round))  # type: ignore[arg-type]


RUNNING = {"port": 5, "asked": True, "started": True}
OVER = {**RUNNING, "over": True}
CLEARING = {**OVER, "clearing": True}


@pytest.mark.parametrize(
    ("known", "wanted", "step"),
    [
        (facts(WorkState.NONE), want(Order.PREPARE), AgentAction.STAGE),
        (facts(WorkState.GOING), want(Order.PREPARE), None),
        (facts(WorkState.FAILED), want(Order.PREPARE), None),
        (facts(), want(Order.PREPARE), AgentAction.HOLD_PORT),
        (facts(port=5), want(Order.PREPARE), None),
        (facts(port=5), want(Order.RUN), AgentAction.START),
        (facts(WorkState.NONE), want(Order.RUN), AgentAction.STAGE),
        (facts(WorkState.GOING), want(Order.RUN), None),
        (facts(), want(Order.RUN), AgentAction.START),
        (facts(asked=True), want(Order.RUN), None),
        (facts(**OVER), want(Order.RUN), None),
        (facts(**RUNNING), want(Order.PREPARE), None),
        (facts(WorkState.GOING), want(Order.STOP), AgentAction.CLOSE_ROUND),
        (facts(port=5), want(Order.STOP), AgentAction.CLOSE_ROUND),
        (facts(closed=True), want(Order.STOP), None),
        (facts(closed=True), want(Order.RUN), None),
        (facts(**RUNNING), want(Order.STOP), AgentAction.STOP),
        (facts(asked=True), want(Order.STOP), AgentAction.STOP),
        (facts(**RUNNING, stopping=True), want(Order.STOP), None),
        (
            AttemptFacts(WorkState.DONE, round=RoundFacts(1, asked=True), supervisor_error="none"),
            want(Order.STOP),
            AgentAction.CLOSE_ROUND,
        ),
        (
            AttemptFacts(WorkState.DONE, round=RoundFacts(1, **RUNNING), supervisor_error="none"),
            want(Order.STOP),
            AgentAction.STOP,
        ),
        (facts(**OVER), want(Order.STOP), None),
        (facts(**RUNNING), want(Order.UPLOAD), None),
        (facts(**OVER), want(Order.UPLOAD), AgentAction.UPLOAD),
        (facts(closed=True), want(Order.UPLOAD), AgentAction.UPLOAD),
        (facts(**CLEARING), want(Order.STOP), None),
        (facts(**CLEARING), want(Order.UPLOAD), None),
        (facts(**CLEARING), want(Order.PREPARE, 2), None),
        (facts(**CLEARING), want(Order.LEAVE), AgentAction.LEAVE),
        (facts(**OVER, upload=WorkState.GOING), want(Order.UPLOAD), None),
        (facts(**OVER), want(Order.PREPARE, 2), AgentAction.BEGIN_ROUND),
        (facts(**OVER), want(Order.RUN, 2), AgentAction.BEGIN_ROUND),
        (facts(**RUNNING), want(Order.PREPARE, 2), AgentAction.STOP),
        (facts(**RUNNING, stopping=True), want(Order.PREPARE, 2), None),
        (facts(**RUNNING), want(Order.STOP, 0), None),
        (facts(**RUNNING), want(Order.LEAVE, 0), AgentAction.LEAVE),
        (facts(**RUNNING), None, None),
    ],
)
def test_the_next_step(known, wanted, step):
    assert next_step(known, wanted) is step


@pytest.mark.parametrize(
    ("known", "said"),
    [
        (AttemptFacts(), Phase.ENROLLED),
        (facts(WorkState.GOING), Phase.STAGING),
        (facts(WorkState.FAILED), Phase.STAGING),
        (facts(), Phase.STAGING),
        (facts(port=5), Phase.READY),
        (facts(**RUNNING), Phase.RUNNING),
        (facts(**OVER), Phase.RUNNING),
        (facts(**OVER, logs_sent=True), Phase.ENDED),
        (facts(**CLEARING, logs_sent=True), Phase.RUNNING),
        (facts(closed=True), Phase.ENDED),
        (facts(**OVER, logs_sent=True, upload=WorkState.GOING), Phase.UPLOADING),
        (facts(**OVER, logs_sent=True, upload=WorkState.FAILED), Phase.UPLOADING),
        (facts(**OVER, logs_sent=True, upload=WorkState.DONE), Phase.UPLOADED),
    ],
)
def test_the_phase(known, said):
    assert phase(known) is said


def test_the_status_has_the_exits_in_the_order_in_which_they_came():
    known = facts(**RUNNING, lost=True)
    known.round.exits = {
        0: RankExit(0, 0, None, 9.0, order=2),
        1: RankExit(1, None, 9, 8.0, order=1),
    }
    known.detail, known.supervisor_error = "words", "no supervisor"
    told = status(known, MEMBER)
    assert [e.rank for e in told.exits] == [1, 0]
    assert (told.round, told.port, told.lost, told.detail, told.error) == (1, 5, True, "words", "no supervisor")


WORK = st.sampled_from(WorkState)
ANY_ROUND = st.builds(
    RoundFacts,
    number=st.integers(0, 3),
    port=st.sampled_from([0, 5]),
    asked=st.booleans(),
    started=st.booleans(),
    stopping=st.booleans(),
    over=st.booleans(),
    clearing=st.booleans(),
    closed=st.booleans(),
)


@given(st.builds(AttemptFacts, staging=WORK, upload=WORK, round=ANY_ROUND), st.sampled_from(Order), st.integers(0, 3))
def test_steps_end_whatever_is_known_and_wanted(known, order, number):
    """As `Agent` does them: each step changes what is known, so that it isn't the next one again."""
    wanted = want(order, number)
    for _ in range(8):
        step = next_step(known, wanted)
        if step in (None, AgentAction.LEAVE):
            return
        take(known, step, number)
    raise AssertionError(f"still {step}")


def take(known: AttemptFacts, step: AgentAction, number: int) -> None:
    match step:
        case AgentAction.BEGIN_ROUND:
            known.round, known.upload = RoundFacts(number), WorkState.NONE
            known.staging = WorkState.NONE if known.staging is WorkState.FAILED else known.staging
        case AgentAction.STAGE:
            known.staging = WorkState.DONE
        case AgentAction.HOLD_PORT:
            known.round.port = 5
        case AgentAction.START:
            known.round.asked = True
        case AgentAction.STOP:
            known.round.stopping = True
        case AgentAction.CLOSE_ROUND:
            known.round.asked, known.round.closed = False, True
        case _:
            known.upload = WorkState.GOING
