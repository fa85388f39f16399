"""Describes a sweep in one sentence: its trials, its search space, and its objective."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from drumbeat.core.sweeps.trial_jobs import max_trials, sampling_algorithm
from drumbeat.jobfile.pipelines.step_types import SweepNode
from drumbeat.jobfile.sweeping.search_space import Choice, Gaussian, Interval, RandInt, SearchFunction
from drumbeat.jobfile.sweeping.sweep import RandomSampling, SweepJob
from drumbeat.model.plurals import counted

MAX_VALUES = 6
"""Values of a choice that are listed."""


def format_sweep(sweep: SweepJob | SweepNode) -> str:
    """`6 trials, 2 at a time, random over lr (loguniform, 0.0001 to 0.1); maximize accuracy`."""
    total = max_trials(sweep)
    at_once = min(sweep.limits.max_concurrent_trials or total, total)
    over = ", ".join(format_dimension(name, one, _base(sweep)) for name, one in sweep.search_space.items())
    pace = "" if total == 1 else ", all at once" if at_once == total else f", {at_once} at a time"
    ends = f"; {early}" if (early := "; ".join(_early_ends(sweep))) else ""
    goal = f"{sweep.objective.goal} {sweep.objective.primary_metric}"
    return f"{counted(total, 'trial')}{pace}, {sampling_algorithm(sweep)} over {over}; {goal}{ends}"


def format_dimension(name: str, function: SearchFunction, base: float = math.e) -> str:
    """`lr (loguniform, 0.0001 to 0.1)`. base: of the log functions."""
    return f"{name} ({', '.join(_range(function, base))})"


def _range(function: SearchFunction, base: float) -> Iterator[str]:
    """The function's name, its range in the values that scripts get, and its steps."""
    if isinstance(function, Choice):
        values = [_option(one) for one in function.values]
        left = len(values) - MAX_VALUES
        yield f"choice of {', '.join(values[:MAX_VALUES])}{f' and {left:,} more' if left > 0 else ''}"
        return
    kind = str(function.kind())
    yield kind
    is_log = "log" in kind
    if isinstance(function, RandInt):
        yield f"0 to {function.upper - 1}"
    if isinstance(function, Interval):
        low, high = (_power(base, end) if is_log else end for end in (function.min_value, function.max_value))
        yield f"{low:.4g} to {high:.4g}"
    if isinstance(function, Gaussian):
        yield f"{'logarithm: ' if is_log else ''}mean {function.mu:.4g}, deviation {function.sigma:.4g}"
    step: float | None = getattr(function, "q", None)
    if step is not None:
        yield f"steps of {step:.4g}"


def _option(value: object) -> str:
    """A value of a choice; of a branch, its parameters."""
    return f"{{{', '.join(map(str, value))}}}" if isinstance(value, Mapping) else str(value)  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]


def _power(base: float, exponent: float) -> float:
    try:
        return base**exponent
    except OverflowError:
        return math.inf


def _base(sweep: SweepJob | SweepNode) -> float:
    sampling = sweep.sampling_algorithm
    base = sampling.logbase if isinstance(sampling, RandomSampling) else None
    return base if isinstance(base, float) else math.e


def _early_ends(sweep: SweepJob | SweepNode) -> Iterator[str]:
    """Yields what ends trials early, and after which time."""
    policy = sweep.early_termination
    if sweep.drumbeat.asha is not None:
        yield "asha ends trials early"
    elif policy is not None:
        yield f"{policy.type.replace('_', ' ')} ends trials early"
    if sweep.limits.trial_timeout is not None:
        yield f"a trial ends after {sweep.limits.trial_timeout:g} s"
