"""NVIDIA's management library, called for real: a library with the same functions stands in for the driver's."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from drumbeat.agent.ground.nvml import Nvml, NvmlError
from drumbeat.agent.metrics.gpus import Gpus
from drumbeat.agent.stacks.gpu_activity import memory_percent

pytestmark = pytest.mark.feature("M2", "F4")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Nvml:
    compiler = shutil.which("cc") or pytest.skip("a C compiler is needed (Debian: apt-get install gcc libc6-dev)")
    path = tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1"
    source = Path(__file__).with_name("fake_nvml.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", path, source], check=True)
    return Nvml(str(path))


def test_gpus_of_the_job_are_sampled(library: Nvml):
    values = Gpus(["0", "GPU-second", "7"], library).sample()
    assert values["gpu_0_memory_mib"] == 20480
    assert (values["gpu_0_memory_percent"], values["gpu_0_percent"], values["gpu_0_power_w"]) == (25, 97, 350.5)
    assert values["gpu_GPU-second_percent"] == 100
    assert "gpu_GPU-second_power_w" not in values
    assert not any("gpu_7" in name for name in values)


def test_memory_of_a_process_is_the_sum_over_the_gpus_of_the_job(library: Nvml):
    both, second = (Gpus(names, library).memory_mib_of_processes() for names in (["0", "1"], ["1"]))
    assert (len(both), both[70], both[71], both[109]) == (40, 6144, 0, 3072)
    assert second == {70: 3072, 71: 0}


def test_busiest_gpu_of_a_process_counts(library: Nvml):
    percents = memory_percent(library)
    assert (len(percents), percents[70], percents[109]) == (40, 21, 21)


def test_device_that_is_missing_is_an_error(library: Nvml):
    with pytest.raises(NvmlError, match=re.escape("nvmlDeviceGetHandleByIndex_v2 failed (2)")):
        library.device("7")


def test_machine_without_the_driver_has_no_library():
    with pytest.raises(NvmlError):
        Nvml("libnvidia-ml-that-is-missing.so.1")
    assert Gpus([]).sample() == {}
    assert Gpus([]).memory_mib_of_processes() == {}
