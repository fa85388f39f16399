"""The resources of a node and its ranks as metrics: how often, and from which time on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from drumbeat.launchers.tracking_variables import ENDPOINT
from drumbeat.model.plan import Plan
from drumbeat.node.metrics.resources import ResourceProbe, interval_s


@pytest.mark.parametrize(("nodes", "ranks", "seconds"), [(1, 8, 5.0), (16, 8, 5.0), (1000, 8, 112.0)])
def test_the_interval_grows_with_the_job_so_that_the_server_keeps_up(nodes: int, ranks: int, seconds: float):
    assert interval_s(Plan("j", "e", "pytorch", nodes, ranks, "true", ())) == seconds


BUSY = """
import time
while time.process_time() < 0.5:
    pass
print("up", flush=True)
time.sleep(600)
"""


@pytest.mark.feature("M2")
def test_first_sample_of_a_rank_that_runs_for_long_is_its_mean_use(tmp_path: Path):
    """The process that samples may be another one than before: it mustn't take hours for a moment."""
    rank = {**os.environ, ENDPOINT: "http://127.0.0.1:9/token/0"}
    with subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE, env=rank) as busy:
        try:
            assert busy.stdout is not None
            assert busy.stdout.readline() == b"up\n"
            _, ranks = ResourceProbe(str(tmp_path), ()).sample(os.getpid())
            assert 0 < ranks[0]["cpu_cores"] < 1.1
        finally:
            busy.kill()
