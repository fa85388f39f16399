"""The rules that stop trials early, against the worked examples of the public documents."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumbeat.core.sweeps.early_termination import Rule, Stop, due, to_stop
from drumbeat.core.sweeps.metric_order import Goal, best, is_worse
from drumbeat.jobfile import Asha, BanditPolicy, MedianStoppingPolicy, Objective, TruncationSelectionPolicy

pytestmark = pytest.mark.feature("S2")

MAX, MIN = "maximize", "minimize"
MEDIAN = MedianStoppingPolicy()
NAN = math.nan


def objective(goal: Goal) -> Objective:
    return Objective(goal=goal, primary_metric="acc")


def by_name(trials: Sequence[Sequence[float]]) -> dict[str, Sequence[float]]:
    return {f"s_{number}": values for number, values in enumerate(trials)}


def stops(
    rule: Rule,
    goal: Goal,
    trials: Sequence[Sequence[float]],
    finished: Sequence[int] = (),
    already: dict[str, int] | None = None,
) -> tuple[Stop, ...]:
    ended = [f"s_{number}" for number in finished]
    return to_stop(rule, objective(goal), by_name(trials), ended, already or {})


def stopped(rule: Rule, goal: Goal, trials: Sequence[Sequence[float]], finished: Sequence[int] = ()) -> list[int]:
    return [int(stop.trial.removeprefix("s_")) for stop in stops(rule, goal, trials, finished)]


def cut(percentage: int, **more: object) -> TruncationSelectionPolicy:
    return TruncationSelectionPolicy.made({"truncation_percentage": percentage, **more})


@pytest.mark.parametrize(
    ("rule", "goal", "trials", "limit", "expected"),
    [
        (BanditPolicy(slack_factor=0.2), MAX, [[0.5, 0.8], [0.4, 0.66], [0.3, 0.67]], "0.6667", [1]),
        (BanditPolicy(slack_amount=0.2), MAX, [[0.8, 0.5], [0.6], [0.59]], "0.6", [2]),
        (BanditPolicy(slack_factor=0.2), MIN, [[0.5, 1], [0.9, 0.6], [0.61]], "0.6", [2]),
        (BanditPolicy(slack_amount=0.1), MIN, [[0.5], [0.6], [0.601]], "0.6", [2]),
        (BanditPolicy(slack_factor=0), MAX, [[0.9], [0.9], [0.899]], "0.9", [2]),
        (BanditPolicy(slack_factor=1), MAX, [[0.9], [0.45], [0.449]], "0.45", [2]),
        (MEDIAN, MAX, [[0.5, 0.7], [0.6, 0.6], [0.2, 0.3]], "0.6", [2]),
        (MEDIAN, MAX, [[0.1, 0.2, 0.3], [0.3, 0.3, 0.3], [0.2, 0.2, 0.2]], "", []),
        (MEDIAN, MIN, [[1, 0.5], [0.9, 0.9], [2, 1]], "0.9", [2]),
        (MEDIAN, MAX, [[0.5], [0.5], [0.5]], "", []),
        (MEDIAN, MAX, [[0.9], [0.1, 0.2], [0.3, 0.3]], "0.3", [1]),
        (MEDIAN, MIN, [[3, 2, 1], [2, 2, 2], [1.9, 2.1, 2.5]], "", []),
        (cut(20), MAX, [[number / 10] for number in range(1, 11)], "0.3", [0, 1]),
        (cut(50), MIN, [[0.4], [0.3], [0.9], [0.1], [0.5]], "0.4", [2, 4]),
        (cut(10), MAX, [[0.1], [0.2], [0.3], [0.4], [0.5]], "", []),
    ],
)
def test_worked_examples_of_the_rules(rule, goal, trials, limit, expected):
    decided = stops(rule, goal, trials)
    assert [f"s_{number}" for number in expected] == [stop.trial for stop in decided]
    assert all(f" {limit}, " in stop.sentence for stop in decided)


@pytest.mark.parametrize(
    ("rule", "trials", "sentence"),
    [
        (
            BanditPolicy(slack_factor=0.2),
            [[0.5, 0.8], [0.4, 0.66]],
            (
                "after 2 reports: its best acc, 0.66, is below 0.6667, the limit with a slack factor of 0.2 "
                "from the best up to that report, 0.8"
            ),
        ),
        (
            BanditPolicy(slack_amount=0.1),
            [[0.8], [0.69999]],
            (
                "after 1 report: its best acc, 0.69999, is below 0.7, the limit with a slack amount of 0.1 "
                "from the best up to that report, 0.8"
            ),
        ),
        (
            MEDIAN,
            [[0.5, 0.7], [0.6, 0.6], [0.2, 0.3]],
            (
                "after 2 reports: its best acc, 0.3, is below 0.6, the median of the averages of 3 trials up "
                "to that report"
            ),
        ),
        (
            cut(50),
            [[0.1], [0.2]],
            ("after 1 report: its best acc, 0.1, is below 0.2, the value next to the worst 1 of 2 trials (50 %)"),
        ),
        (
            Asha(),
            [[0.1], [0.2]],
            ("after 1 report: its best acc, 0.1, is below 0.2, the limit of the best of 2 trials on this rung so far"),
        ),
    ],
)
def test_sentence_has_value_limit_and_its_origin(rule, trials, sentence):
    assert stops(rule, MAX, trials)[-1].sentence == f"stopped early {sentence}"


@pytest.mark.parametrize("rule", [BanditPolicy(slack_factor=0.1), BanditPolicy(slack_amount=0.1)])
def test_bandit_compares_with_what_others_had_reported_by_the_same_report(rule):
    slow, fast = [0.5 * step for step in range(1, 6)], [0.9 * step for step in range(1, 6)]
    for reported in range(2, 6):
        assert stopped(rule, MAX, [slow, fast[:reported]], finished=[0]) == []
        assert stopped(rule, MAX, [fast, slow[:reported]], finished=[0]) == [1]
    assert stopped(rule, MIN, [[-value for value in slow], [-value for value in fast[:2]]], finished=[0]) == []


def test_trial_with_fewer_reports_counts_with_its_best_at_the_limit_of_a_bandit():
    assert stopped(BanditPolicy(slack_amount=0.1), MAX, [[0.9], [0.1, 0.2]]) == [1]


def test_limit_at_minimize_is_said_to_be_exceeded():
    (stop,) = stops(BanditPolicy(slack_amount=0.1), MIN, [[0.5], [0.601]])
    assert "0.601, is above 0.6," in stop.sentence


def test_trial_at_a_rounded_limit_goes_on():
    assert 0.8 - 0.2 > 0.6
    assert stopped(BanditPolicy(slack_amount=0.2), MAX, [[0.8], [0.6]]) == []
    assert stopped(BanditPolicy(slack_amount=0.2), MAX, [[0.8], [0.6 * (1 - 1e-8)]]) == [1]


@pytest.mark.parametrize(("goal", "other", "expected"), [(MAX, -1.21, [1]), (MAX, -1.2, []), (MIN, -0.8, [1])])
def test_slack_factor_of_a_negative_best_lies_on_its_worse_side(goal, other, expected):
    assert stopped(BanditPolicy(slack_factor=0.2), goal, [[-1.0], [other]]) == expected


def test_nan_is_the_worst_value():
    assert stopped(BanditPolicy(slack_factor=0.2), MAX, [[0.5], [NAN], [NAN, 0.5]]) == [1]
    assert stopped(cut(50), MIN, [[0.5], [NAN]]) == [1]
    assert stopped(MEDIAN, MAX, [[0.5, 0.5], [NAN, NAN], [NAN, 0.6]]) == []
    assert stopped(MEDIAN, MIN, [[NAN], [NAN], [NAN]]) == []


def test_finished_trials_count_but_are_not_stopped():
    assert stopped(BanditPolicy(slack_amount=0.1), MAX, [[0.9], [0.1], [0.2]], finished=[0, 1]) == [2]


def test_truncation_may_leave_finished_trials_out():
    trials = [[0.1], [0.2], [0.3], [0.4]]
    assert stopped(cut(50), MAX, trials, finished=[0, 1]) == []
    assert stopped(cut(50, exclude_finished_jobs=True), MAX, trials, finished=[0, 1]) == [2]


def test_trials_tied_with_one_that_stays_are_not_truncated():
    assert stopped(cut(50), MAX, [[0.1], [0.1], [0.1], [0.5]]) == []


@pytest.mark.parametrize(
    ("interval", "delay", "points"),
    [
        (1, 0, [0, 1, 2, 3, 4, 5, 6, 7]),
        (0, 0, [0, 1, 2, 3, 4, 5, 6, 7]),
        (2, 0, [0, 0, 2, 2, 4, 4, 6, 6]),
        (1, 5, [0, 0, 0, 0, 0, 5, 6, 7]),
        (2, 5, [0, 0, 0, 0, 0, 0, 6, 6]),
        (3, 3, [0, 0, 0, 3, 3, 3, 6, 6]),
    ],
)
def test_evaluation_points_are_multiples_of_the_interval_from_the_delay_on(interval, delay, points):
    rule = MedianStoppingPolicy(evaluation_interval=interval, delay_evaluation=delay)
    assert [due(rule, {"s": [1.0] * count}, ())["s"] for count in range(8)] == points


def test_each_point_is_evaluated_once():
    rule, trials = BanditPolicy(slack_amount=0.1, evaluation_interval=2), [[0.9, 0.9], [0.1, 0.1, 0.1]]
    assert [stop.at_report for stop in stops(rule, MAX, trials)] == [2]
    assert stops(rule, MAX, trials, already={"s_1": 2}) == ()
    assert [stop.at_report for stop in stops(rule, MAX, [[0.9], [0.1] * 4], already={"s_1": 2})] == [4]


@pytest.mark.parametrize(
    ("keys", "points"),
    [
        ({}, {0: 0, 1: 1, 3: 1, 4: 4, 15: 4, 16: 16, 1000: 256}),
        ({"min_reports": 2, "reduction_factor": 3}, {1: 0, 2: 2, 5: 2, 6: 6, 18: 18}),
        ({"max_reports": 16}, {15: 4, 16: 4, 17: 4}),
        ({"min_reports": 3, "max_reports": 4}, {2: 0, 3: 3, 99: 3}),
    ],
)
def test_rungs_of_asha_multiply_up_to_the_most_reports(keys, points):
    rule = Asha.made(keys)
    assert {count: due(rule, {"s": [1.0] * count}, ())["s"] for count in points} == points


def test_asha_keeps_the_best_of_those_on_the_rung():
    rule = Asha(min_reports=1, reduction_factor=2)
    assert stopped(rule, MAX, [[0.4], [], []]) == []
    assert stopped(rule, MAX, [[0.4], [0.3], [0.5]]) == [0, 1]
    assert stopped(rule, MAX, [[0.1], [0.2], [0.3], [0.4]]) == [0, 1]
    assert stopped(rule, MAX, [[0.9, 0.9], [0.5, 0.6], [0.7]]) == [1, 2]


VALUES = st.one_of(st.floats(-1e6, 1e6), st.sampled_from([NAN, math.inf, -math.inf, 0.0, 0.5]))
TRIALS = st.lists(st.lists(VALUES, max_size=6), min_size=1, max_size=6)
RULES = st.one_of(
    st.builds(lambda x: BanditPolicy(slack_factor=x), st.floats(0, 10)),
    st.builds(lambda x: BanditPolicy(slack_amount=x), st.floats(0, 10)),
    st.builds(lambda n, d: MedianStoppingPolicy(evaluation_interval=n, delay_evaluation=d), *[st.integers(0, 3)] * 2),
    st.builds(lambda p, e: cut(p, exclude_finished_jobs=e), st.integers(1, 99), st.booleans()),
    st.builds(lambda m, f: Asha(min_reports=m, reduction_factor=f), st.integers(1, 3), st.integers(2, 4)),
)
GOALS = st.sampled_from([MAX, MIN])


@given(RULES, GOALS, TRIALS)
def test_best_trial_up_to_its_point_is_never_stopped(rule, goal, trials):
    for stop in stops(rule, goal, trials):
        values = [best(reports[: stop.at_report], goal) for reports in trials]
        assert values[int(stop.trial.removeprefix("s_"))] != best(values, goal)


@pytest.mark.parametrize(
    ("rule", "goal", "trials", "expected"),
    [
        (Asha(reduction_factor=4), MAX, [[0.1, 0.9, 0.9], [0.5], [0.6, 0.2]], [0, 1]),
        (Asha(min_reports=2, reduction_factor=3), MIN, [[5, 4, 0.1, 0.1], [3, 3], [9, 2, 8]], [0, 1]),
        (cut(34, evaluation_interval=2), MAX, [[0.1, 0.2, 0.9], [0.5, 0.6], [0.7, 0.1]], [0]),
        (MedianStoppingPolicy(evaluation_interval=2), MAX, [[0.1, 0.2, 0.9], [0.5, 0.6], [0.7, 0.7]], [0]),
        (BanditPolicy(slack_amount=0.1, evaluation_interval=2), MAX, [[0.1, 0.2, 0.9], [0.5, 0.6]], [0]),
    ],
)
def test_reports_after_a_point_save_no_trial_that_is_evaluated_there(rule, goal, trials, expected):
    assert stopped(rule, goal, trials) == expected
    at_once = [values[: due(rule, {"s": values}, ())["s"]] for values in trials]
    assert stopped(rule, goal, at_once) == expected, "the server looked as the last of them came"


@given(RULES, GOALS, TRIALS, st.randoms(use_true_random=False))
def test_order_of_the_trials_changes_nothing(rule, goal, trials, random):
    reports = list(by_name(trials).items())
    expected = to_stop(rule, objective(goal), dict(reports), (), {})
    random.shuffle(reports)
    assert to_stop(rule, objective(goal), dict(reports), (), {}) == expected


@given(GOALS, st.floats(-1e6, 1e6), st.floats(0, 100), st.booleans())
def test_trial_exactly_at_the_limit_of_a_bandit_goes_on(goal, top, slack, is_factor):
    if is_factor:
        rule = BanditPolicy(slack_factor=slack)
        limit = top * (1 + slack) if (goal == MIN) == (top >= 0) else top / (1 + slack)
    else:
        rule = BanditPolicy(slack_amount=slack)
        limit = top + slack if goal == MIN else top - slack
    assert stopped(rule, goal, [[top], [limit]]) == []


@given(RULES, GOALS, TRIALS)
def test_decision_depends_on_what_was_reported_alone(rule, goal, trials):
    points = due(rule, by_name(trials), ())
    decided = stops(rule, goal, trials)
    assert decided == stops(rule, goal, trials)
    assert stops(rule, goal, trials, already=points) == ()
    assert all(points[stop.trial] == stop.at_report > 0 for stop in decided)


@given(GOALS, st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_of_two_values_at_most_one_is_worse(goal, one, other):
    assert not (is_worse(one, other, goal) and is_worse(other, one, goal))
