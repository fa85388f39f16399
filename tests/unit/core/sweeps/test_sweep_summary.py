"""A sweep in one sentence."""

import pytest

from drumbeat.core.sweeps.sweep_summary import format_dimension, format_sweep
from drumbeat.jobfile import Choice, LogUniform, Normal, QUniform, RandInt, SweepJob, Uniform, loads
from drumbeat.jobfile.sweeping.search_space import SearchFunction
from tests.support.messages import Messages

SWEEP = """
type: sweep
trial: {command: x}
sampling_algorithm: random
search_space: {lr: {type: loguniform, min_value: -9.21034, max_value: -2.302585}}
objective: {goal: maximize, primary_metric: accuracy}
limits: {max_total_trials: 6, max_concurrent_trials: 2}
"""


def sweep(*settings: str) -> SweepJob:
    job = loads(SWEEP, overrides=settings)
    assert isinstance(job, SweepJob)
    return job


@pytest.mark.feature("J4")
def test_sweep_is_said_with_trials_search_space_and_objective(messages: Messages) -> None:
    messages.check(format_sweep(sweep()))


def test_sweep_with_an_early_end_and_trials_all_at_once_says_so(messages: Messages) -> None:
    text = format_sweep(
        sweep("limits.max_concurrent_trials=9", "early_termination.type=median_stopping", "limits.trial_timeout=90")
    )
    messages.check(text)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (Uniform(0, 1), "x (uniform, 0 to 1)"),
        (QUniform(16, 128, 16), "x (quniform, 16 to 128, steps of 16)"),
        (RandInt(5), "x (randint, 0 to 4)"),
        (Normal(0, 2), "x (normal, mean 0, deviation 2)"),
        (Choice(["1e-4", {"opt": "sgd", "lr": Uniform(0, 1)}]), "x (choice of 1e-4, {opt, lr})"),
        (Choice([*range(9)]), "x (choice of 0, 1, 2, 3, 4, 5 and 3 more)"),
    ],
)
def test_dimension_is_said_in_the_values_that_scripts_get(function: SearchFunction, text: str) -> None:
    assert format_dimension("x", function) == text


def test_log_function_is_said_in_its_own_base() -> None:
    assert format_dimension("x", LogUniform(-4, -1), 10) == "x (loguniform, 0.0001 to 0.1)"
