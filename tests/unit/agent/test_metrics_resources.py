"""How often a node's resources are metrics."""

from __future__ import annotations

import pytest

from drumbeat.agent.metrics.resource_sampler import interval_s
from drumbeat.protocol.plan import Plan


@pytest.mark.parametrize(("nodes", "ranks", "seconds"), [(1, 8, 5.0), (16, 8, 5.0), (1000, 8, 96.0)])
def test_the_interval_grows_with_the_job_so_that_the_server_keeps_up(nodes: int, ranks: int, seconds: float):
    assert interval_s(Plan("j", "e", "pytorch", nodes, ranks, "true", ())) == seconds
