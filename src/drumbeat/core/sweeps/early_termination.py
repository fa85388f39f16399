"""Decides which trials of a sweep are stopped early: bandit, median stopping, truncation selection, ASHA.

Each rule gives a limit, and a trial whose best value up to the same report is worse than the limit is stopped: what it
has reported since then counts as little as what others have, so that nothing depends on when the server looks. A trial
at the limit goes on, so the best trial up to that report is never stopped.

A trial is due at each multiple of `evaluation_interval` of its own reports, from `delay_evaluation` on; with ASHA, at
each rung. Each of these points is evaluated once. If several have passed since the last evaluation (the server was
away), the latest one counts: a trial that has recovered since then goes on.

How two values compare, NaN too, is decided in `core/sweeps/metric_order.py`.

The rules' keys and their defaults are in `jobfile/sweeping/early_termination.py`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from drumbeat.core.sweeps.metric_order import Goal, average, best, best_first, is_worse, worst
from drumbeat.jobfile.sweeping.early_termination import (
    Asha,
    BanditPolicy,
    MedianStoppingPolicy,
    TruncationSelectionPolicy,
)
from drumbeat.jobfile.sweeping.sweep import Objective, SweepJob
from drumbeat.model.plurals import counted

Rule = BanditPolicy | MedianStoppingPolicy | TruncationSelectionPolicy | Asha
Reports = Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class Stop:
    """A trial to be stopped."""

    trial: str
    sentence: str
    """Why, with the trial's value and the limit; for the job's event."""
    at_report: int
    """How many reports of the trial were counted at this evaluation."""


@dataclass(frozen=True)
class Limit:
    """The value that a trial may not be worse than, and where it comes from."""

    value: float
    origin: str


def rule_for(sweep: SweepJob) -> Rule | None:
    """Returns the rule by which the sweep's trials are stopped; None where they all run to their end."""
    return sweep.drumbeat.asha or sweep.early_termination


def due(rule: Rule, reports: Reports, finished: Collection[str]) -> dict[str, int]:
    """Returns, for each unfinished trial, the number of reports at its latest evaluation point; 0 before the first."""
    return {trial: _latest_point(rule, len(values)) for trial, values in reports.items() if trial not in finished}


def to_stop(
    rule: Rule,
    objective: Objective,
    reports: Reports,
    finished: Collection[str],
    already_evaluated: Mapping[str, int],
) -> tuple[Stop, ...]:
    """The trials to stop now, in the order of their names.

    reports: the values of the primary metric that each trial has reported, in order. finished: trials that don't run
    any more. already_evaluated: what `due` gave for each trial when it was last evaluated.
    """
    points = due(rule, reports, finished)
    fresh = {trial: point for trial, point in points.items() if point > already_evaluated.get(trial, 0)}
    limits = {point: _limit(rule, objective.goal, reports, finished, point) for point in set(fresh.values())}
    stops = [_judge(trial, reports[trial], point, limits[point], objective) for trial, point in fresh.items()]
    return tuple(sorted((stop for stop in stops if stop), key=lambda stop: (len(stop.trial), stop.trial)))


def _judge(trial: str, values: Sequence[float], point: int, limit: Limit, objective: Objective) -> Stop | None:
    value = best(values[:point], objective.goal)
    if not is_worse(value, limit.value, objective.goal):
        return None
    side = "above" if objective.goal == "minimize" else "below"
    shown, bound = _apart(value, limit.value)
    sentence = (
        f"stopped early after {counted(point, 'report')}: its best {objective.primary_metric}, {shown}, is {side} "
        f"{bound}, {limit.origin}"
    )
    return Stop(trial, sentence, point)


# --- when a trial is evaluated --------------------------------------------------------------------------------------
def _latest_point(rule: Rule, count: int) -> int:
    if isinstance(rule, Asha):
        return _latest_rung(rule, count)
    latest = count - count % max(1, rule.evaluation_interval)
    return latest if latest >= rule.delay_evaluation else 0


def _latest_rung(rule: Asha, count: int) -> int:
    reach = min(count, (rule.max_reports or math.inf) - 1)
    rung = rule.min_reports
    while rung * rule.reduction_factor <= reach:
        rung *= rule.reduction_factor
    return rung if rung <= reach else 0


# --- the limits -----------------------------------------------------------------------------------------------------
def _limit(rule: Rule, goal: Goal, reports: Reports, finished: Collection[str], point: int) -> Limit:
    counted_in = {trial: values for trial, values in reports.items() if values}
    match rule:
        case BanditPolicy():
            return _bandit(rule, goal, counted_in, point)
        case MedianStoppingPolicy():
            return _median(goal, counted_in, point)
        case TruncationSelectionPolicy():
            if rule.exclude_finished_jobs:
                counted_in = {trial: values for trial, values in counted_in.items() if trial not in finished}
            return _truncation(rule, goal, counted_in, point)
        case Asha():
            return _asha(rule, goal, counted_in, point)


def _bandit(rule: BanditPolicy, goal: Goal, reports: Reports, point: int) -> Limit:
    """The best of all trials' reports 1 to n, less the slack. What a trial has reported since then doesn't count.

    The documented ratio, best / (1 + factor) for `maximize`, is mirrored for `minimize`: best * (1 + factor). The
    public documents leave that open. They also leave open what it means for a negative best, which it would stop: there
    the two forms change places, so that the limit always lies on the worse side of the best.
    """
    top = best((value for values in reports.values() for value in values[:point]), goal)
    origin = f"from the best up to that report, {top:.4g}"
    if rule.slack_amount is not None:
        limit = top + rule.slack_amount if goal == "minimize" else top - rule.slack_amount
        return Limit(limit, f"the limit with a slack amount of {rule.slack_amount:g} {origin}")
    ratio = 1 + (rule.slack_factor or 0)
    is_multiplied = (goal == "minimize") == (top >= 0)
    limit = top * ratio if is_multiplied else top / ratio
    return Limit(limit, f"the limit with a slack factor of {rule.slack_factor or 0:g} {origin}")


def _median(goal: Goal, reports: Reports, point: int) -> Limit:
    """The median over all trials of the averages of their reports 1 to n. A shorter trial counts with what it has."""
    averages = [average(values[:point], goal) for values in reports.values()]
    middle = median(averages)
    # The two middle ones of an even number may be infinities of both signs.
    value = worst(goal) if math.isnan(middle) else middle
    return Limit(value, f"the median of the averages of {counted(len(averages), 'trial')} up to that report")


def _truncation(rule: TruncationSelectionPolicy, goal: Goal, reports: Reports, point: int) -> Limit:
    """The worst value that isn't among the share to be cut.

    The share is rounded down to whole trials, which the public documents leave open. Trials are compared by the best of
    their reports 1 to n; one that has fewer counts with what it has.
    """
    ranked = best_first((best(values[:point], goal) for values in reports.values()), goal)
    cut = len(ranked) * rule.truncation_percentage // 100
    share = f"the worst {cut} of {len(ranked)} trials ({rule.truncation_percentage} %)"
    return Limit(ranked[-1 - cut], f"the value next to {share}")


def _asha(rule: Asha, goal: Goal, reports: Reports, point: int) -> Limit:
    """The last value that goes on from this rung: one in `reduction_factor` of those that reached it, at least 1."""
    ranked = best_first((best(values[:point], goal) for values in reports.values() if len(values) >= point), goal)
    kept = max(1, len(ranked) // rule.reduction_factor)
    what = f"the best {kept} of" if kept > 1 else "the best of"
    return Limit(ranked[kept - 1], f"the limit of {what} {counted(len(ranked), 'trial')} on this rung so far")


def _apart(value: float, limit: float) -> tuple[str, str]:
    """Formats both numbers with as many digits as it takes to tell them apart, at least four."""
    for digits in range(4, 17):
        if f"{value:.{digits}g}" != f"{limit:.{digits}g}":
            return f"{value:.{digits}g}", f"{limit:.{digits}g}"
    return repr(value), repr(limit)
