"""What the agent does next and says of itself, as tables."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumbeat.model.agent import Directive, Order, Phase, RankExit
from drumbeat.model.roster import Member
from drumbeat.node.agent.next_step import Facts, RoundFacts, Step, Work, next_step, phase, status

MEMBER = Member(0, "host", "10.0.0.1", "/root", "/checkpoints")


def want(order: Order, round: int = 1) -> Directive:
    return Directive(order, 1, round)


def facts(staging: Work = Work.DONE, upload: Work = Work.NONE, **of_round: object) -> Facts:
    return Facts(staging, upload, RoundFacts(1, **of_round))  # type: ignore[arg-type]


RUNNING = {"port": 5, "asked": True, "started": True}
OVER = {**RUNNING, "over": True}
CLEARING = {**OVER, "clearing": True}


@pytest.mark.parametrize(
    ("known", "wanted", "step"),
    [
        (facts(Work.NONE), want(Order.PREPARE), Step.STAGE),
        (facts(Work.GOING), want(Order.PREPARE), None),
        (facts(Work.FAILED), want(Order.PREPARE), None),
        (facts(), want(Order.PREPARE), Step.HOLD_PORT),
        (facts(port=5), want(Order.PREPARE), None),
        (facts(port=5), want(Order.RUN), Step.START),
        (facts(Work.NONE), want(Order.RUN), Step.STAGE),
        (facts(Work.GOING), want(Order.RUN), None),
        (facts(), want(Order.RUN), Step.START),
        (facts(asked=True), want(Order.RUN), None),
        (facts(**OVER), want(Order.RUN), None),
        (facts(**RUNNING), want(Order.PREPARE), None),
        (facts(Work.GOING), want(Order.STOP), Step.CLOSE_ROUND),
        (facts(port=5), want(Order.STOP), Step.CLOSE_ROUND),
        (facts(closed=True), want(Order.STOP), None),
        (facts(closed=True), want(Order.RUN), None),
        (facts(**RUNNING), want(Order.STOP), Step.STOP),
        (facts(asked=True), want(Order.STOP), Step.STOP),
        (facts(**RUNNING, stopping=True), want(Order.STOP), None),
        (
            Facts(Work.DONE, round=RoundFacts(1, asked=True), supervisor_error="none"),
            want(Order.STOP),
            Step.CLOSE_ROUND,
        ),
        (Facts(Work.DONE, round=RoundFacts(1, **RUNNING), supervisor_error="none"), want(Order.STOP), Step.STOP),
        (facts(**OVER), want(Order.STOP), None),
        (facts(**RUNNING), want(Order.UPLOAD), None),
        (facts(**OVER), want(Order.UPLOAD), Step.UPLOAD),
        (facts(closed=True), want(Order.UPLOAD), Step.UPLOAD),
        (facts(**CLEARING), want(Order.STOP), None),
        (facts(**CLEARING), want(Order.UPLOAD), None),
        (facts(**CLEARING), want(Order.PREPARE, 2), None),
        (facts(**CLEARING), want(Order.LEAVE), Step.LEAVE),
        (facts(**OVER, upload=Work.GOING), want(Order.UPLOAD), None),
        (facts(**OVER), want(Order.PREPARE, 2), Step.BEGIN_ROUND),
        (facts(**OVER), want(Order.RUN, 2), Step.BEGIN_ROUND),
        (facts(**RUNNING), want(Order.PREPARE, 2), Step.STOP),
        (facts(**RUNNING, stopping=True), want(Order.PREPARE, 2), None),
        (facts(**RUNNING), want(Order.STOP, 0), None),
        (facts(**RUNNING), want(Order.LEAVE, 0), Step.LEAVE),
        (facts(**RUNNING), None, None),
    ],
)
def test_the_next_step(known, wanted, step):
    assert next_step(known, wanted) is step


@pytest.mark.parametrize(
    ("known", "said"),
    [
        (Facts(), Phase.ENROLLED),
        (facts(Work.GOING), Phase.STAGING),
        (facts(Work.FAILED), Phase.STAGING),
        (facts(), Phase.STAGING),
        (facts(port=5), Phase.READY),
        (facts(**RUNNING), Phase.RUNNING),
        (facts(**OVER), Phase.RUNNING),
        (facts(**OVER, logs_sent=True), Phase.ENDED),
        (facts(**CLEARING, logs_sent=True), Phase.RUNNING),
        (facts(closed=True), Phase.ENDED),
        (facts(**OVER, logs_sent=True, upload=Work.GOING), Phase.UPLOADING),
        (facts(**OVER, logs_sent=True, upload=Work.FAILED), Phase.UPLOADING),
        (facts(**OVER, logs_sent=True, upload=Work.DONE), Phase.UPLOADED),
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


WORK = st.sampled_from(Work)
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


@given(st.builds(Facts, staging=WORK, upload=WORK, round=ANY_ROUND), st.sampled_from(Order), st.integers(0, 3))
def test_steps_end_whatever_is_known_and_wanted(known, order, number):
    """As `Agent` does them: each step changes what is known, so that it isn't the next one again."""
    wanted = want(order, number)
    for _ in range(8):
        step = next_step(known, wanted)
        if step in (None, Step.LEAVE):
            return
        take(known, step, number)
    raise AssertionError(f"still {step}")


def take(known: Facts, step: Step, number: int) -> None:
    match step:
        case Step.BEGIN_ROUND:
            known.round, known.upload = RoundFacts(number), Work.NONE
            known.staging = Work.NONE if known.staging is Work.FAILED else known.staging
        case Step.STAGE:
            known.staging = Work.DONE
        case Step.HOLD_PORT:
            known.round.port = 5
        case Step.START:
            known.round.asked = True
        case Step.STOP:
            known.round.stopping = True
        case Step.CLOSE_ROUND:
            known.round.asked, known.round.closed = False, True
        case _:
            known.upload = Work.GOING
