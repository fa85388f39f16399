"""How many schedules are run: 1,000 in `make check`, 10,000 in `make test`, or as many as DRUMBEAT_SIMULATIONS says."""

import os

import pytest

from tests.runs import is_everything

LANES = 16
"""Parts of a test: each is seconds of computing, so that a busy machine's stays below the limit for one test."""


PATIENT = [pytest.mark.timeout(0)] if "DRUMBEAT_SIMULATIONS" in os.environ else []
"""Marks of a file with schedules: who asks for more of them waits as long as they take."""


def how_many(config: pytest.Config) -> int:
    """Of one test, over all of its lanes."""
    return int(os.environ.get("DRUMBEAT_SIMULATIONS", "10000" if is_everything(config) else "1000"))
