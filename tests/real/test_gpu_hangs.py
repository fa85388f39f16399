"""Ranks that wait for their GPU, or compute there for long: what the story says of them, on a machine with a GPU."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from drumbeat.node.stacks import find_py_spy
from tools.hangs.case import Case
from tools.hangs.on_gpu import HANGS, WORKING

from .gpus import CPU, FIRST
from .house import House, a_house, until

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.feature("F4"),
    pytest.mark.skipif(not find_py_spy.find_here(), reason="py-spy isn't installed: pip install py-spy"),
]
CASES = {case.name: case for case in (*HANGS, *WORKING)}
HANG_AFTER_S = 4


@pytest.fixture(scope="module")
def house(first_gpu: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with a_house(tmp_path_factory.mktemp("house")) as there:
        yield there


def submit(house: House, case: Case, name: str) -> str:
    """Sends a case as a job whose ranks take the GPU themselves: a job gives each rank a GPU of its own, or none."""
    house.script(f"import os; os.environ['CUDA_VISIBLE_DEVICES'] = {FIRST!r}\n{case.text}", name, "train.py")
    path = house.job_file(
        name, code=".", command="python train.py", resources=CPU,
        distribution=f"{{type: pytorch, process_count_per_instance: {case.ranks}}}",
        drumbeat=f"{{hang_after_s: {HANG_AFTER_S}, on_hang: dump, grace_s: 1, warm_start: false}}",
    )  # fmt: skip
    return house.client.submit(path).name


def story(house: House, job: str, words: str) -> list[str]:
    return [line.sentence for line in house.client.story(job) if words in line.sentence]


@pytest.mark.parametrize(
    ("case", "sentence"),
    [
        ("kernel without end", "the job may hang: rank 0 waits for its GPU at train.py:"),
        ("kernel without end, value read", "the job may hang: rank 0 waits for its GPU at train.py:"),
        ("kernel without end beside gloo", "the job may hang: rank 1 on node 0 waits for its GPU at train.py:"),
        ("lock beside NCCL", "the job may hang: rank 1 on node 0 waits for a lock or another thread at train.py:"),
    ],
)
def test_rank_that_waits_for_its_gpu_without_end_is_told(house: House, case: str, sentence: str) -> None:
    job = submit(house, CASES[case], case.replace(" ", "-").replace(",", ""))
    until(lambda: story(house, job, "hang"), 150, "the hang")
    (told,) = story(house, job, "hang")
    assert told.startswith(sentence)
    kept = (house.home / "jobs" / job / "hangs" / "1.1.txt").read_text()
    assert "train.py:" in kept
    house.client.cancel(job)
    assert house.client.wait(job, 60) is not None


def test_rank_that_computes_on_its_gpu_for_longer_is_slow_and_no_hang(house: House) -> None:
    job = submit(house, CASES["validation on the GPU beside gloo"], "validation")
    until(lambda: story(house, job, "silent for"), 150, "the slow rank")
    (told,) = story(house, job, "silent for")
    assert told.startswith(f"silent for {HANG_AFTER_S} s: rank 1 on node 0 computes at train.py:")
    assert ", while rank 0 waits in all_reduce at train.py:" in told
    house.client.cancel(job)
    assert house.client.wait(job, 60) is not None


LONG = """
import time
import torch
large = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
end, steps = time.monotonic() + 40, 0
while time.monotonic() < end:
    for _ in range(30):
        torch.mm(large, large)
    torch.cuda.synchronize()
    steps += 1
print("steps", steps)
"""


def test_long_computation_that_prints_nothing_is_no_hang(house: House) -> None:
    case = Case("long", LONG, is_hang=False, ranks=1, begins="")
    job = submit(house, case, "long")
    done = house.client.wait(job, 150)
    assert done is not None
    assert done.state == "completed", house.logs(job)
    assert "steps" in house.logs(job)[0]
    assert not story(house, job, "hang")
