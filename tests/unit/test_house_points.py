"""Every place where a process may die is one where a test has it die (`model.faults`)."""

from __future__ import annotations

import re
from pathlib import Path

from drumbeat.model.failpoints import ELSEWHERE

TESTS = Path(__file__).parents[1]
SIMULATED = frozenset({
    "agent.spare_found", "agent.spare_taken", "agent.spare_dead",
})  # fmt: skip
"""Where only supervisors between two jobs come by: the simulator kills at any
point (tests/support/simulation; unit/simulation/test_simulated_warm_pools.py)."""


def test_each_point_off_the_common_way_is_killed_at_by_some_test():
    found = [path for folder in ("real", "chaos") for path in (TESTS / folder).glob("test_*.py")]
    told = "\n".join(path.read_text() for path in found if path.name != "test_every_point.py")
    named = set(re.findall(r'"([a-z]+\.[a-z_]+)(?::\d+)?"', told))
    whole = tuple(re.findall(r'for point in ELSEWHERE\s+if point\.startswith\("([a-z]+\.)"\)', told))
    assert {point for point in ELSEWHERE if point not in named and not point.startswith(whole)} == SIMULATED
