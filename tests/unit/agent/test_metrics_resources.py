"""ResourceMeter as metrics: how often, and of GPUs by NVIDIA's library where there is one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from drumbeat.agent.metrics.gpus import Gpus
from drumbeat.agent.metrics.resource_sampler import interval_s
from drumbeat.protocol.plan import Plan

LIBRARY = """
from types import SimpleNamespace as Values
def nvmlInit(): pass
def nvmlDeviceGetHandleByIndex(number): return f"GPU {number}"
def nvmlDeviceGetHandleByUUID(name): return name
def nvmlDeviceGetMemoryInfo(handle): return Values(used=20 << 30, total=80 << 30)
def nvmlDeviceGetUtilizationRates(handle): return Values(gpu=97)
def nvmlDeviceGetPowerUsage(handle):
    if handle == "GPU 1":
        raise RuntimeError("Not Supported")
    return 350_500
def nvmlDeviceGetComputeRunningProcesses(handle):
    return [Values(pid=70, usedGpuMemory=3 << 30), Values(pid=71, usedGpuMemory=None)]
"""


def test_gpus_of_the_job_are_sampled_by_nvidias_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "pynvml.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "pynvml", raising=False)
    values = Gpus(["0", "1"]).sample()
    assert values["gpu_0_memory_mib"] == 20480
    assert (values["gpu_0_memory_percent"], values["gpu_0_percent"], values["gpu_0_power_w"]) == (25, 97, 350.5)
    assert values["gpu_1_percent"] == 97
    assert "gpu_1_power_w" not in values


def test_memory_of_a_process_is_the_sum_over_the_gpus_of_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "pynvml.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "pynvml", raising=False)
    assert Gpus(["0", "1"]).memory_mib_of_processes() == {70: 6144, 71: 0}
    assert Gpus([]).memory_mib_of_processes() == {}


def test_a_node_without_gpus_of_the_job_samples_none():
    assert Gpus([]).sample() == {}


@pytest.mark.parametrize(("nodes", "ranks", "seconds"), [(1, 8, 5.0), (16, 8, 5.0), (1000, 8, 96.0)])
def test_the_interval_grows_with_the_job_so_that_the_server_keeps_up(nodes: int, ranks: int, seconds: float):
    assert interval_s(Plan("j", "e", "pytorch", nodes, ranks, "true", ())) == seconds
