"""Steps and bytes, by the metrics of a running job."""

from __future__ import annotations

import pytest

from drumbeat.core.measured_steps import SentSample, StepPoint, sent_per_step, step_s

pytestmark = pytest.mark.feature("B2")
STEPS = [StepPoint(10.0 if step < 3 else 4.0 + 0.5 * step, step) for step in range(60)]


def test_step_is_the_median_without_the_warm_up():
    assert step_s(STEPS) == pytest.approx(0.5)
    assert step_s(list(reversed(STEPS))) == pytest.approx(0.5)


def test_steps_that_arrive_in_bursts_have_about_their_mean_length():
    bursts = [StepPoint(5.0 * (step // 10), step) for step in range(100)]
    assert step_s(bursts) == pytest.approx(0.5, rel=0.2)


def test_a_metric_of_every_tenth_step_gives_the_length_of_one():
    assert step_s([StepPoint(0.5 * step, step) for step in range(0, 200, 10)]) == pytest.approx(0.5)


def test_few_steps_say_nothing():
    assert step_s(STEPS[:8]) is None
    assert sent_per_step(STEPS[:8], [SentSample(1, 1), SentSample(2, 1)]) is None


def test_bytes_of_a_step_come_from_samples_among_the_steps():
    samples = [SentSample(1.0, 9e9), SentSample(6.0, 9e9), *(SentSample(at, 20e6) for at in (11.0, 16.0, 21.0, 26.0))]
    assert sent_per_step(STEPS, samples) == pytest.approx(10e6)
    assert sent_per_step(STEPS, samples[:2]) is None
