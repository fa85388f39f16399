"""The resources of a node and its ranks as metrics: how often, and from which time on."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from drumbeat.launchers.tracking_variables import ENDPOINT
from drumbeat.model.plan import Plan
from drumbeat.node.metrics.resources import ResourceProbe, interval_s
from drumbeat.node.platform.gpu_readings import GpuProcess, GpuReading


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


@pytest.mark.feature("M3")
@pytest.mark.parametrize(("users", "percents"), [((0, 1), [55.0, 20.0]), ((1,), [0.0, 20.0]), ((), [None, None])])
def test_rank_is_as_busy_as_the_gpus_that_it_uses(tmp_path: Path, users: tuple[int, ...], percents: list[float | None]):
    """Rank 0 uses the first two GPUs, rank 1 the third one. Where the driver names no rank, none is said to be idle."""
    with ExitStack() as stack:
        ranks = [stack.enter_context(sleeper(rank)) for rank in range(2)]

        def read(names: Sequence[str]) -> list[GpuReading]:
            owners = {"0": 0, "1": 0, "2": 1}
            busy = {"0": 90.0, "1": 20.0, "2": 20.0}
            return [
                GpuReading(
                    name,
                    percent=busy[name],
                    processes=tuple(GpuProcess(ranks[owners[name]].pid) for _ in range(owners[name] in users)),
                )
                for name in names
            ]

        _, values = ResourceProbe(str(tmp_path), ["0", "1", "2"], read).sample(os.getpid())
        assert [values[rank].get("gpu_percent") for rank in range(2)] == percents


@contextmanager
def sleeper(rank: int) -> Iterator[subprocess.Popen[bytes]]:
    """A process of a rank that does nothing, once it has begun."""
    environ = {**os.environ, ENDPOINT: f"http://127.0.0.1:9/token/{rank}"}
    code = "import time; print('up', flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=environ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"up\n"
            yield process
        finally:
            process.kill()
