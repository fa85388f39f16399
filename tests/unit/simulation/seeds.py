"""The number of schedules: 80 in `make check`, 120 in `make test`, 10,000 in `make thorough`."""

import os

import pytest

from tests.runs import is_everything, is_thorough

LANES = 16
"""Parts of a test: each is seconds of computing, so that a busy machine's stays below the limit for one test."""

NEAR = 50
"""A planted defect is found by one of this many schedules from its seed on."""

PATIENT = [pytest.mark.timeout(0)] if "DRUMBEAT_SIMULATIONS" in os.environ or is_thorough() else []
"""Marks of a file with schedules: a run that asks for more of them waits as long as they take."""


def how_many(config: pytest.Config) -> int:
    """Schedules of one test, over all of its lanes."""
    usual = 10_000 if is_thorough() else 120 if is_everything(config) else 80
    return int(os.environ.get("DRUMBEAT_SIMULATIONS", usual))


def near(seed: int) -> range:
    """The seeds that a planted defect must be found by.

    A change of the schedules can move it: the test then fails, and its defect needs another seed.
    """
    return range(seed, seed + NEAR)
