"""What meets a condition, by the records of a node: the same records give the same states, whoever reads them."""

from __future__ import annotations

import math

import pytest

from drumbeat.model.agent import Directive, Order
from drumbeat.model.conditions import ConditionAction, ConditionKind, ConditionState, JobCondition, ends_alone
from drumbeat.model.metrics import MetricRecord, Point, PointsLogged, node_rank
from drumbeat.node.agent.idle_watch import IdleStates, NodeUse
from drumbeat.node.agent.next_step import AgentAction, AttemptFacts, RoundFacts, WorkState, next_step
from drumbeat.node.metrics.conditions import MAX_GAP_MS, ConditionWatch

pytestmark = pytest.mark.feature("M13")

STOP, NOTIFY = ConditionAction.STOP, ConditionAction.NOTIFY
RUN, OTHER_RUN = "a" * 32, "b" * 32
NAN = math.nan


def logged(value: float, step: int, rank: int = 0, name: str = "loss", run: str = RUN) -> MetricRecord:
    return PointsLogged(run, rank, (Point(name, value, step, 1000 * step),))


def curve(*values: float, first: int = 1, rank: int = 0) -> list[MetricRecord]:
    return [logged(value, first + n, rank) for n, value in enumerate(values)]


def watch(condition: JobCondition, *records: MetricRecord, node: int = 0) -> tuple[int, bool, str]:
    """Returns how often the condition became true, whether it is, and why."""
    one = ConditionWatch((condition,), node)
    for record in records:
        one.take((record,))
    at_once = ConditionWatch((condition,), node)
    at_once.take(records)
    assert one.states == at_once.states
    return (one.states[0].times, one.states[0].is_met, one.states[0].sentence) if one.states else (0, False, "")


def test_value_that_is_no_number_counts_from_any_rank() -> None:
    condition = JobCondition(STOP, ConditionKind.NAN, "loss")
    assert watch(condition, *curve(1, 2, math.inf)) == (0, False, "")
    told = watch(condition, *curve(1, 2), *curve(1, NAN, NAN, rank=3))
    assert told == (1, True, "loss is not a number (at step 2, rank 3)")
    assert watch(JobCondition(STOP, ConditionKind.NAN, "other"), *curve(NAN)) == (0, False, "")
    finite = JobCondition(STOP, ConditionKind.NOT_FINITE, "loss")
    assert watch(finite, *curve(1, -math.inf))[2] == "loss is infinite (at step 2, rank 0)"


def test_limit_is_crossed_as_often_as_a_value_becomes_true() -> None:
    condition = JobCondition(NOTIFY, ConditionKind.BELOW, "loss", 1.0)
    told = watch(condition, *curve(3, 0.5, 0.4, 1.0, 0.25, 7))
    assert told == (2, False, "loss is 0.25, below 1 (at step 5, rank 0)")
    assert watch(JobCondition(STOP, ConditionKind.ABOVE, "loss", 5), *curve(5, 5.5))[2].startswith(
        "loss is 5.5, above 5"
    )


def test_one_rank_that_meets_it_keeps_it_met() -> None:
    condition = JobCondition(NOTIFY, ConditionKind.BELOW, "loss", 1.0)
    assert watch(condition, logged(0, 1, rank=0), logged(0, 1, rank=1), logged(9, 2, rank=0))[:2] == (1, True)


def no_better(reports: int = 3, rank: int = 0, **more: object) -> JobCondition:
    return JobCondition(STOP, ConditionKind.NO_BETTER, "loss", reports=reports, rank=rank, **more)


@pytest.mark.parametrize(
    ("condition", "values", "told"),
    [
        (no_better(), (3, 2, 2, 2), False),
        (no_better(), (3, 2, 2, 2, 2), True),
        (no_better(), (3, 2, 2.5, 2.1, 1.9, 2, 2), False),
        (no_better(min_delta=0.5), (3, 2, 1.6, 1.7, 1.55), True),
        (no_better(min_delta=0.5), (3, 2, 1.6, 1.4, 1.3, 1.2), False),
        (no_better(is_higher_better=True), (1, 2, 1, 1, 1), True),
        (no_better(is_higher_better=True), (1, 2, 3, 4, 5), False),
        (no_better(), (NAN, NAN, NAN), True),
        (no_better(delay=4), (1, 2, 2, 2, 2, 2), False),
        (no_better(delay=4), (1, 2, 2, 2, 2, 2, 2), True),
    ],
)
def test_reports_in_a_row_that_are_no_better(condition: JobCondition, values: tuple[float, ...], told: bool) -> None:
    assert watch(condition, *curve(*values))[1] is told


def test_sentence_of_a_curve_names_its_best_point() -> None:
    told = watch(no_better(), *curve(3, 0.31, 2, 2, 2))[2]
    assert told == "loss no better for 3 reports (best 0.31 at step 2)"


def test_steps_reported_again_after_a_restart_are_not_counted_twice() -> None:
    before, again = curve(3, 2, 2.1, 2.2), curve(2.1, 2.2, first=3)
    assert not watch(no_better(), *before, *again)[1]
    assert watch(no_better(), *before, *again, logged(2.3, 5))[1]


def test_values_of_other_ranks_and_runs_are_other_curves() -> None:
    assert watch(no_better(), *curve(3, 2, 2, 2, 2, 2, rank=1)) == (0, False, "")
    others = [logged(2, step, run=OTHER_RUN) for step in (1, 2)]
    assert not watch(no_better(), *curve(3, 2, 2), *others, logged(2, 4))[1]
    assert watch(no_better(), *others, logged(3, 3, run=OTHER_RUN), logged(3, 4, run=OTHER_RUN))[1]


def sampled(at_s: float, *percents: float, node: int = 0) -> MetricRecord:
    points = [Point(f"system/gpu_{n}_percent", one, 0, int(at_s * 1000)) for n, one in enumerate(percents)]
    memory = Point("system/gpu_0_memory_percent", 99.0, 0, int(at_s * 1000))
    return PointsLogged(RUN, node_rank(node), (*points, memory))


def test_gpus_below_a_share_for_a_time_meet_it() -> None:
    condition = JobCondition(STOP, ConditionKind.GPU_BELOW, limit=10, lasting_s=60)
    low = [sampled(at, 5, 12) for at in range(0, 60, 5)]
    assert not watch(condition, *low)[1]
    told = watch(condition, *low, sampled(60, 5, 12))
    assert told == (1, True, "the use of the GPUs was below 10 % for 60 s (now 8.5 %)")
    assert not watch(condition, *low, sampled(57, 90, 90), sampled(60, 5, 12), sampled(115, 1, 1))[1]
    late = 55 + MAX_GAP_MS / 1000 + 1
    assert not watch(condition, *low, sampled(late, 5, 12))[1], "no ranks ran meanwhile"
    assert not watch(condition, *(sampled(at, 0, node=1) for at in range(0, 90, 5)))[1], "those of another node"
    assert not watch(condition, *(logged(0, at, name="system/gpu_0_percent") for at in range(0, 90, 5)))[1]


IDLE = (
    JobCondition(STOP, ConditionKind.IDLE, lasting_s=100),
    JobCondition(NOTIFY, ConditionKind.IDLE, lasting_s=80),
)


def test_node_that_nobody_uses_idles_and_any_use_begins_the_time_again() -> None:
    idle = IdleStates(IDLE, 0.0, NodeUse(0, 0.0))
    for at in range(10, 80, 10):
        idle.take(at, NodeUse(0, 0.01 * at))
    assert idle.states == ()
    idle.take(80, NodeUse(0, 0.8))
    assert [(one.condition, one.is_met) for one in idle.states] == [(1, True)]
    idle.take(90, NodeUse(5000, 0.9))
    assert [(one.condition, one.times, one.is_met) for one in idle.states] == [(1, 1, False)]
    for at in range(100, 190, 10):
        idle.take(at, NodeUse(5000, 0.9))
    assert [(one.condition, one.times, one.is_met) for one in idle.states] == [(1, 2, True)]
    idle.take(190, NodeUse(5000, 0.9))
    assert [(one.condition, one.is_met) for one in idle.states] == [(0, True), (1, True)]
    assert idle.states[0].sentence == "no user has sent anything, and its processes have done nothing, for 100 s"


@pytest.mark.parametrize(
    "activity", [NodeUse(100, 0.0), NodeUse(0, 0.6), NodeUse(0, -1.0), NodeUse(0, 0.0, gpu_percent=3.0)]
)
def test_bytes_of_a_user_cpu_time_and_gpus_are_use(activity: NodeUse) -> None:
    assert activity.is_beyond(NodeUse(0, 0.0), 10.0)
    assert not NodeUse(99, 0.4, 0.9).is_beyond(NodeUse(0, 0.0), 10.0)


def state(number: int, *, is_met: bool = True) -> ConditionState:
    return ConditionState(number, 1, is_met, "so")


def test_one_node_knows_alone_that_the_job_ends_unless_all_must_agree() -> None:
    conditions = (JobCondition(STOP, ConditionKind.NAN, "loss"), JobCondition(NOTIFY, ConditionKind.NAN, "loss"), *IDLE)
    assert ends_alone(conditions, [state(0, is_met=False)], 4)
    assert not ends_alone(conditions, [state(1), state(3)], 1)
    assert ends_alone(conditions, [state(2)], 1)
    assert not ends_alone(conditions, [state(2)], 2)
    assert not ends_alone(conditions, [state(2, is_met=False)], 1)


def test_agent_without_an_answer_stops_the_ranks_of_a_job_that_ends() -> None:
    facts = AttemptFacts(staging=WorkState.DONE, round=RoundFacts(1, started=True), ends_early=True)
    wanted = Directive(Order.RUN, 1, 1)
    assert next_step(facts, wanted) is AgentAction.STOP
    facts.round.stopping = True
    assert next_step(facts, wanted) is None
    facts.ends_early, facts.round.stopping = False, False
    assert next_step(facts, wanted) is None
