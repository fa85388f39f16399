"""Warm workers on a machine with a GPU: they hold none of it, and become ranks that see the right one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from drumbeat.node.supervisor import spare_folders
from drumbeat.node.supervisor.warm_pool import AFTER_S

from .gpus import CPU, GPU, has_gpu_open, job_of, processes_on_gpus
from .house import House, a_house, until

pytestmark = [pytest.mark.gpu, pytest.mark.feature("F3", "L11")]

SEES = """
import json, os, sys, time
is_prepared = "torch" in sys.modules
import torch
seen = {"visible": os.environ["CUDA_VISIBLE_DEVICES"], "devices": torch.cuda.device_count(), "prepared": is_prepared}
if seen["devices"]:
    seen["sum"] = torch.ones(1 << 20, device="cuda").sum().item()
print(json.dumps(seen), flush=True)
while not os.path.exists(STOP):
    time.sleep(0.05)
"""
ON_GPU = {"visible": "0", "devices": 1, "sum": float(1 << 20)}


@pytest.fixture
def house(first_gpu: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    monkeypatch.setenv(AFTER_S, "0.2")
    monkeypatch.setenv(spare_folders.IDLE_S, "120")
    monkeypatch.setenv("DRUMBEAT_CACHE", str(tmp_path / "cache"))
    try:
        with a_house(tmp_path) as there:
            yield there
    finally:
        for spare in spare_folders.listed():
            spare_folders.end(spare)


def submit(house: House, resources: str = GPU) -> str:
    script = SEES.replace("STOP", repr(str(house.folder / "stop")))
    path = job_of(house, script, resources=resources, drumbeat="{max_retries: 1, grace_s: 1}")
    return house.client.submit(path).name


def seen(house: House, job: str, count: int = 1) -> dict[str, object]:
    """What the newest of so many ranks has printed."""
    lines = list[str]()

    def read() -> bool:
        lines[:] = [line for line in house.logs(job).get(0, "").splitlines() if line.startswith("{")]
        return len(lines) >= count

    until(read, 120, f"what the rank sees ({house.client.story(job)})")
    return json.loads(lines[-1])


def warm_workers(house: House) -> list[psutil.Process]:
    return [one for one in house.processes() if "DRUMBEAT_STANDBY" in one.environ()]


def wait_for_interpreter(house: House, job: str) -> None:
    logs = house.home / "nodes"
    ready = "interpreters ready for the next round: 1"
    until(lambda: any(ready in log.read_text() for log in logs.glob(f"{job}.*/*/root/agent.log")), 120, ready)


def test_rank_restarts_on_the_gpu_in_an_interpreter_that_held_none_of_it(house: House) -> None:
    job = submit(house)
    assert seen(house, job) == {**ON_GPU, "prepared": False}
    wait_for_interpreter(house, job)
    (prepared,) = warm_workers(house)
    holders = processes_on_gpus()
    (rank,) = [one for one in house.processes() if one.pid in holders]
    assert prepared.pid not in holders
    assert (has_gpu_open(rank.pid), has_gpu_open(prepared.pid)) == (True, False)
    rank.kill()
    assert seen(house, job, 2) == {**ON_GPU, "prepared": True}
    assert "node 0: round 2 started warm" in [line.sentence for line in house.client.story(job)]
    assert prepared.pid in processes_on_gpus()
    (house.folder / "stop").touch()
    ended = house.client.wait(job, 60)
    assert ended is not None
    assert ended.state == "completed"


def test_interpreters_that_wait_for_the_next_job_hold_no_gpu_and_serve_only_its_like(house: House) -> None:
    stop = house.folder / "stop"
    first = submit(house)
    seen(house, first)
    wait_for_interpreter(house, first)
    stop.touch()
    assert house.client.wait(first, 60) is not None
    until(spare_folders.listed, 30, "a spare supervisor")
    interpreters = [pid for spare in spare_folders.listed() for pid in spare.interpreters]
    assert len(interpreters) == 1
    assert not has_gpu_open(interpreters[0])
    on_cpu = submit(house, CPU)
    assert seen(house, on_cpu) == {"visible": "", "devices": 0, "prepared": False}
    assert house.client.wait(on_cpu, 60) is not None
    again = submit(house)
    assert seen(house, again) == {**ON_GPU, "prepared": True}
    ended = house.client.wait(again, 60)
    assert ended is not None
    assert ended.state == "completed"
    assert "node 0: round 1 started warm" in [line.sentence for line in house.client.story(again)]
