"""Predictions of `drumbeat plan --predict` beside the run that they are of."""

from __future__ import annotations

import os

import pytest

pytest.importorskip("torch", reason="needs torch: run tools/setup.sh")

from bench.predict import Model, measure
from drumbeat.core.prediction import StepProfile, predict

pytestmark = [pytest.mark.feature("B2"), pytest.mark.timeout(600)]

SMALL = Model(layers=1, width=512, rows=16)
"""A megabyte of gradients: on the link of the test it takes a second, and all else of a step next to nothing."""
LINK = "8mbit"


@pytest.mark.thorough
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: netlab makes network namespaces")
def test_step_of_two_nodes_takes_the_time_that_was_predicted_from_one():
    (seen,) = measure(SMALL, [LINK])
    predicted = predict(StepProfile(seen.alone_s, SMALL.gradient_bytes), seen.network, 2)
    assert seen.two_s == pytest.approx(predicted.step_s, rel=0.3)
    assert predicted.limit == "sync"
    assert seen.efficiency < 0.5, "else the network would not be what is predicted"
