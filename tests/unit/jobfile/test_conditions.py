"""The keys `stop_when`, `notify_when` and `idle_after`: what they mean, and what is refused at its line."""

from __future__ import annotations

import pytest

from drumbeat.jobfile import loads
from drumbeat.jobfile.job.conditions import plan_conditions
from drumbeat.jobfile.job.job import CommandJob
from drumbeat.jobfile.reading.writer import dumps
from drumbeat.model.conditions import ANY_RANK, ConditionAction, ConditionKind, JobCondition
from drumbeat.model.errors import SpecError
from tests.support.messages import Messages

pytestmark = pytest.mark.feature("M13")

STOP, NOTIFY = ConditionAction.STOP, ConditionAction.NOTIFY


def conditions(*lines: str) -> tuple[JobCondition, ...]:
    """Returns the conditions of a job with these lines in its `drumbeat:` table, which it is written with again."""
    job = loads("command: python t.py\ncode: .\ndrumbeat:\n" + "".join(f"  {line}\n" for line in lines))
    assert isinstance(job, CommandJob)
    assert loads(dumps(job)) == job
    return plan_conditions(job.drumbeat, job.drumbeat.primary_goal)


@pytest.mark.parametrize(
    ("written", "kind", "metric", "limit"),
    [
        ("metric.val/loss < 0.1", ConditionKind.BELOW, "val/loss", 0.1),
        ('metric."my loss"  >1e3', ConditionKind.ABOVE, "my loss", 1000.0),
        ("metrics.loss = nan", ConditionKind.NAN, "loss", 0.0),
        ("{metric: loss, is: not_finite}", ConditionKind.NOT_FINITE, "loss", 0.0),
        ("{metric: loss, above: 3}", ConditionKind.ABOVE, "loss", 3.0),
        ("{metric: loss, below: 0}", ConditionKind.BELOW, "loss", 0.0),
    ],
)
def test_limit_counts_for_any_rank(written: str, kind: ConditionKind, metric: str, limit: float) -> None:
    found = conditions(f"stop_when: ['{written}']" if not written.startswith("{") else f"stop_when: [{written}]")
    assert found == (JobCondition(STOP, kind, metric, limit, rank=ANY_RANK, is_higher_better=False),)


def test_curve_counts_for_rank_0_with_the_goal_of_its_name_or_of_the_metric_that_counts() -> None:
    found = conditions(
        "primary_metric: {name: quality, goal: max}",
        "stop_when:",
        "- {metric: val/loss, no_better_for: 5, min_delta: 0.001}",
        "- {metric: quality, no_better_for: 2, delay_evaluation: 10}",
        "- {metric: val/accuracy, no_better_for: 2, rank: any, goal: minimize}",
    )
    assert [(one.metric, one.reports, one.is_higher_better, one.rank) for one in found] == [
        ("val/loss", 5, False, 0),
        ("quality", 2, True, 0),
        ("val/accuracy", 2, False, ANY_RANK),
    ]
    assert (found[0].min_delta, found[1].delay) == (0.001, 10)


def test_times_are_seconds_or_texts_and_an_idle_job_is_warned_before() -> None:
    found = conditions("notify_when: [{gpu_below: 10, for: 1h30m}]", "idle_after: 3600")
    assert [(one.action, one.kind, one.lasting_s) for one in found] == [
        (NOTIFY, ConditionKind.GPU_BELOW, 5400.0),
        (STOP, ConditionKind.IDLE, 3600.0),
        (NOTIFY, ConditionKind.IDLE, 3000.0),
    ]
    assert [one.lasting_s for one in conditions("idle_after: 100s")] == [100.0, 80.0]


@pytest.mark.parametrize(
    "written",
    [
        "metric.val/loss ? 0.1",
        "metric.loss < low",
        "metric.loss = 3",
        "loss < 3",
        "{metric: loss, no_better_for: -1}",
        "{metric: loss, no_beter_for: 3}",
        "{metric: quality, no_better_for: 3}",
        "{metric: loss}",
        "{above: 3}",
        "{metric: loss, above: 1, below: 2}",
        "{metric: loss, above: 1, goal: max}",
        "{metric: loss, no_better_for: 3, min_delta: -0.1}",
        "{metric: loss, is: infinite}",
        "{metric: loss, above: 1, rank: -1}",
        "{gpu_below: 10}",
        "{gpu_below: 10, for: 30 minutes}",
        "{gpu_below: 110, for: 30m}",
        "{gpu_below: 10, for: 30m, metric: loss}",
        "{metric: loss, above: 1, for: 30m}",
    ],
)
def test_invalid_condition_is_refused_at_its_line(written: str, messages: Messages) -> None:
    with pytest.raises(SpecError) as refused:
        conditions("notify_when:", "- metric.loss > 1", f"- {written}")
    assert ":6:" in str(refused.value)
    messages.check(str(refused.value))


def test_use_of_gpus_that_is_not_measured_and_time_below_zero_are_refused(messages: Messages) -> None:
    with pytest.raises(SpecError) as refused:
        conditions("system_metrics: false", "stop_when:", "- {gpu_below: 10, for: 30m}")
    messages.check(str(refused.value))
    with pytest.raises(SpecError) as refused:
        conditions("idle_after: -1")
    messages.check(str(refused.value))
