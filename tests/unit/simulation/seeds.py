"""How many schedules are run: 1,000 in `make check`, 10,000 in `make test`, or as many as DRUMBEAT_SIMULATIONS says."""

import os
from pathlib import Path

import pytest

LANES = 4


def how_many(config: pytest.Config) -> int:
    """`make test` is the run that names no folder below tests."""
    is_everything = [Path(one).name for one in config.args] == ["tests"]
    return int(os.environ.get("DRUMBEAT_SIMULATIONS", "10000" if is_everything else "1000"))
