"""The best trial of a sweep.

A trial counts with the best value that it has ever reported, not with its last one: Azure ranks runs by the minimum or
maximum of the primary metric, and takes failed and canceled runs, too (`best_child_run_id`, and
`get_best_run_by_primary_metric` of its first SDK). Of equal trials, the first one is the best.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from drumbeat.core.sweeps.metric_order import Goal, best


@dataclass(frozen=True)
class BestTrial:
    """The best trial, with its best value."""

    trial: str
    value: float
    at_report: int
    """Which of its reports had that value first, counted from 1."""


def best_trial(goal: Goal, reports: Mapping[str, Sequence[float]]) -> BestTrial | None:
    """Returns the best trial by the reported values of the primary metric; None while none has reported a number."""
    values = {trial: best(reports[trial], goal) for trial in sorted(reports, key=lambda name: (len(name), name))}
    ranked = {trial: value for trial, value in values.items() if not all(map(math.isnan, reports[trial]))}
    if not ranked:
        return None
    sign = 1 if goal == "minimize" else -1
    trial = min(ranked, key=lambda name: sign * ranked[name])
    return BestTrial(trial, ranked[trial], list(reports[trial]).index(ranked[trial]) + 1)
