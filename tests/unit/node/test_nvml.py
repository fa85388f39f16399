"""NVIDIA's management library, called for real: a library with the same functions stands in for the driver's."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from drumbeat.model.programs import GPU_READER
from drumbeat.node.host.own_programs import program
from drumbeat.node.metrics.resources import Gpus, GpuSample
from drumbeat.node.platform import child_processes, gpu_readings
from drumbeat.node.platform.gpu_reader import GpuReader
from drumbeat.node.platform.gpu_readings import GpuProcess, GpuReading
from drumbeat.node.platform.nvml import Nvml, NvmlError
from drumbeat.node.stacks.rank_looks import memory_percents

pytestmark = pytest.mark.feature("F4")

Build = Callable[..., str]


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Builds the library. defines: names of what is wrong with it."""
    compiler = shutil.which("cc") or pytest.skip("a C compiler is needed (Debian: apt-get install gcc libc6-dev)")
    source = Path(__file__).with_name("fake_nvml.c")

    def build(*defines: str) -> str:
        path = tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1"
        subprocess.run([compiler, "-shared", "-fPIC", *(f"-D{one}" for one in defines), "-o", path, source], check=True)
        return str(path)

    return build


@pytest.fixture(scope="module")
def proc(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder as /proc, with the processes that the library names but for the last one."""
    folder = tmp_path_factory.mktemp("proc")
    for pid in range(70, 109):
        (folder / str(pid)).mkdir()
    return str(folder)


@pytest.fixture(scope="module")
def library(build: Build, proc: str) -> Nvml:
    return Nvml(build(), proc)


def test_gpus_of_the_job_are_sampled(library: Nvml):
    sample = Gpus(["0", "GPU-second", "7"], partial(gpu_readings.read, library)).sample()
    values = sample.values
    assert sample.percents[70] == {"0": 97, "GPU-second": 100}
    assert values["gpu_0_memory_mib"] == 20480
    assert (values["gpu_0_memory_percent"], values["gpu_0_percent"], values["gpu_0_power_w"]) == (25, 97, 350.5)
    assert values["gpu_GPU-second_percent"] == 100
    assert values["gpu_0_temperature_c"] == 61
    assert not {"gpu_GPU-second_power_w", "gpu_GPU-second_temperature_c"} & values.keys()
    assert not any("gpu_7" in name for name in values)


def test_memory_of_a_process_is_the_sum_over_the_gpus_or_missing_where_unknown(library: Nvml):
    read = partial(gpu_readings.read, library)
    both, second = (Gpus(names, read).sample().held for names in (["0", "1"], ["1"]))
    assert (len(both), both[70], both[108]) == (38, 4096, 1024)
    assert 71 not in both
    assert second == {70: 3072}


@pytest.mark.parametrize("defines", [(), ("WIDE",)])
def test_processes_are_found_in_either_layout_of_the_list(build: Build, proc: str, defines: tuple[str, ...]):
    wide = Nvml(build(*defines), proc)
    held = wide.processes(wide.device("0"))
    assert list(held) == list(range(70, 109))  # 109 is no process here.
    assert (held.pop(71), set(held.values())) == (None, {1 << 30})


def test_list_that_always_needs_more_room_is_given_up(build: Build, proc: str):
    grows = Nvml(build("GROWS"), proc)
    with pytest.raises(NvmlError, match=re.escape("nvmlDeviceGetComputeRunningProcesses_v3 failed (7)")):
        grows.processes(grows.device("0"))


def test_process_is_read_by_itself_where_the_driver_can(build: Build, proc: str):
    percents = memory_percents(gpu_readings.read(Nvml(build("SAMPLED=72"), proc)))
    assert (percents[72], percents[73], percents[108]) == (30, 0, 0)


def test_whole_gpu_counts_where_the_driver_knows_the_process_by_another_number(build: Build, proc: str):
    percents = memory_percents(gpu_readings.read(Nvml(build("SAMPLED=4711"), proc)))
    assert (percents[72], percents[108]) == (21, 21)


def gpu(percent: float | None, *held: tuple[int, int | None]) -> GpuReading:
    processes = tuple(GpuProcess(pid, used) for pid, used in held)
    return GpuReading("0", memory_percent=percent, processes=processes)


def test_gpu_on_which_a_process_has_only_a_context_says_nothing_of_it():
    first, second = gpu(40.0, (7, 40 << 30), (8, 500 << 20)), gpu(0.0, (8, 40 << 30))
    assert memory_percents([first, second]) == {7: 40.0, 8: 0.0}


def test_busiest_gpu_counts_of_a_process_on_several():
    assert memory_percents([gpu(40.0, (8, 20 << 30)), gpu(0.0, (8, 40 << 30))]) == {8: 40.0}
    assert memory_percents([gpu(40.0, (8, None)), gpu(0.0, (8, 40 << 30))]) == {8: 40.0}


def test_gpu_that_says_nothing_of_its_memory_leaves_its_processes_out():
    assert memory_percents([gpu(None, (8, 20 << 30))]) == {}


def test_device_that_is_missing_is_an_error(library: Nvml):
    with pytest.raises(NvmlError, match=re.escape("nvmlDeviceGetHandleByIndex_v2 failed (2)")):
        library.device("7")


def test_reader_asks_in_one_process_that_stays_for_the_next_reading(build: Build):
    reader = GpuReader(build())
    try:
        before = children()
        assert [(one.name, one.memory_percent) for one in reader.read()] == [("0", 21.0), ("1", 0.0)]
        first = children() - before
        assert [one.percent for one in reader.read(["GPU-second"])] == [100.0]
        assert (len(first), children() - before) == (1, first)
    finally:
        reader.close()


def test_driver_that_does_not_answer_ends_no_look(build: Build):
    before, reader = children(), GpuReader(build("STUCK"), timeout_s=0.5, retry_s=0.0)
    answers: list[object] = []
    looks = [threading.Thread(target=lambda: answers.append(reader.read()), daemon=True) for _ in range(3)]
    for look in looks:
        look.start()
    for look in looks:
        look.join(20)
    assert answers == [(), (), ()]
    assert len(children() - before) <= 1
    reader.close()
    assert children() == before


def test_driver_that_does_not_answer_is_not_asked_again_at_once(build: Build, monkeypatch: pytest.MonkeyPatch):
    reader = GpuReader(build("STUCK"), timeout_s=0.5, retry_s=600.0)
    reader.read()

    def start(*_: object, **__: object) -> None:
        pytest.fail("the driver was asked again")

    monkeypatch.setattr(child_processes, "start", start)
    before = children()
    assert reader.read() == ()
    assert children() <= before
    reader.close()


def test_process_ends_with_a_reader_whose_driver_is_stuck(build: Build):
    script = (
        "import sys, threading\nfrom drumbeat.node.platform.gpu_reader import GpuReader\n"
        "reader = GpuReader(sys.argv[1], timeout_s=60)\n"
        "threading.Thread(target=reader.read, daemon=True).start()\n"
        "while reader._child is None: pass\nprint(reader._child.pid)\n"
    )
    words = [sys.executable, "-c", script, build("STUCK")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=20, check=False)
    os.kill(int(done.stdout), 9)
    assert done.returncode == 0


def test_child_ends_with_its_input_or_without_a_driver(build: Build):
    command = program(GPU_READER)
    assert subprocess.run([*command, build()], input=b"", timeout=20, check=False).returncode == 0
    assert (
        subprocess.run(
            [*command, "libnvidia-ml-that-is-missing.so.1"], input=b"[]\n", timeout=20, check=False
        ).returncode
        == 1
    )


def test_machine_without_the_driver_has_no_library_and_starts_no_process():
    with pytest.raises(NvmlError):
        Nvml("libnvidia-ml-that-is-missing.so.1")
    before = children()
    assert GpuReader("libnvidia-ml-that-is-missing.so.1").read() == ()
    assert children() == before
    assert Gpus([]).sample() == GpuSample({}, {}, {})


def children() -> frozenset[int]:
    with child_processes.unchanged() as pids:
        return pids
