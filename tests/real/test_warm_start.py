"""Restarts in warm workers: real ranks, and scripts that look at how they were started."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from drumbeat.node.supervisor import spare_folders
from drumbeat.node.supervisor.warm_pool import AFTER_S
from drumbeat.node.supervisor.warm_worker import write_hook
from drumbeat.rehearsal import target_processes

from .house import House, a_house, until
from .test_warm_pool import write_torch
from .warm_worker_probes import LIGHT_PROBES, PROBES, QUICK

WITNESSES = (
    "state of a module", "state of a folder", "processes", "end by raise", "end by interrupt", "end by thread",
    "buffered", "own sitecustomize",
)  # fmt: skip
WARM = [name for name, probe in PROBES.items() if not probe.cold]
OTHERS = [name for name, probe in PROBES.items() if probe.cold and name not in QUICK]

TRAIN = """
import os, sys, time
first = "torch" in sys.modules
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DistributedDataParallel(torch.nn.Linear(16, 4))
optimizer = torch.optim.AdamW(model.parameters(), 0.01)
for step in range(10):
    optimizer.zero_grad()
    loss = model(torch.randn(8, 16)).square().mean()
    loss.backward()
    optimizer.step()
    print("loss", step, loss.item().hex())
print("saw", sys.argv, __name__, sys.path[0], "PYTHONPATH" in os.environ, sorted(os.listdir("/proc/self/fd")))
print("round", os.environ["DRUMBEAT_ROUND"], "prepared" if first else "fresh", flush=True)
while os.environ["DRUMBEAT_ROUND"] == "1":
    time.sleep(0.05)
# Python's shutdown can abort in a thread of gloo's.
os._exit(0)
"""


def probed(folder: Path, *names: str) -> dict[str, list[dict[str, Any]]]:
    driver = Path(__file__).with_name("warm_worker_probes.py")
    done = subprocess.run(
        [sys.executable, driver, folder, *names], capture_output=True, text=True, timeout=400, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.feature("F3")
@pytest.mark.parametrize(
    "names",
    [
        pytest.param(WITNESSES, id="witnesses"),
        pytest.param([name for name in LIGHT_PROBES if name not in WITNESSES], id="others", marks=pytest.mark.thorough),
    ],
)
def test_scripts_see_the_same_in_an_interpreter_with_an_empty_torch(tmp_path, names):
    for name, (warm, cold) in probed(tmp_path, "--light", *names).items():
        assert warm == cold, name


@pytest.mark.thorough
@pytest.mark.feature("F3")
@pytest.mark.parametrize("name", WARM)
def test_a_script_sees_the_same_in_a_warm_worker(tmp_path, name):
    warm, cold = probed(tmp_path, name)[name]
    assert warm == cold


def test_an_interpreter_that_could_differ_is_refused_with_the_reason(tmp_path):
    for name, (result,) in probed(tmp_path, *QUICK).items():
        assert PROBES[name].cold in result["cold"]


@pytest.mark.thorough
@pytest.mark.parametrize("name", OTHERS)
def test_an_interpreter_that_differs_after_the_imports_is_refused(tmp_path, name):
    (result,) = probed(tmp_path, name)[name]
    assert PROBES[name].cold in result["cold"]


@pytest.mark.parametrize("number", ["its own", "99"])
def test_an_interpreter_without_a_supervisor_never_runs_the_script(tmp_path, number):
    write_hook(str(tmp_path / "hook"))
    supervisor, own = socket.socketpair()
    supervisor.close()
    with own:
        order = str(own.fileno()) if number == "its own" else number
        path = f"{tmp_path / 'hook'}:{write_torch(tmp_path / 'light')}"
        done = subprocess.run(
            [sys.executable, "-c", "print('ran')"], capture_output=True, text=True, timeout=60, check=False,
            env={"PYTHONPATH": path, "DRUMBEAT_STANDBY": order}, pass_fds=[own.fileno()],
        )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.fixture
def house(tmp_path, monkeypatch):
    monkeypatch.setenv(AFTER_S, "0.2")
    with a_house(tmp_path) as house:
        yield house


def submit(house: House, script: str = TRAIN, variables: str = "{}", **extra: str) -> str:
    table = ", ".join(f"{key}: {value}" for key, value in {"max_retries": "2", **extra}.items())
    file = house.job_file(
        code=".", command="python train.py --lr 0.1",
        distribution="{type: pytorch, process_count_per_instance: 2}", drumbeat=f"{{{table}}}",
        environment_variables=variables,
    )  # fmt: skip
    house.script(script, file="train.py")
    return house.client.submit(file).name


def ranks(house: House) -> dict[str, psutil.Process]:
    """The ranks of the running round, by their number."""
    running = [each for each in house.processes() if each.cmdline()[1:3] == ["train.py", "--lr"]]
    return {each.environ()["RANK"]: each for each in running if "DRUMBEAT_STANDBY" not in each.environ()}


def wait_for_log(house: House, job: str, text: str) -> None:
    until(lambda: all(text in log for log in (house.logs(job) or {0: ""}).values()), what=text)


def wait_for_interpreters(house: House, count: int) -> None:
    text = f"interpreters ready for the next round: {count}"
    until(lambda: any(text in log.read_text() for log in house.home.glob("nodes/*/*/root/agent.log")), 240, text)


@pytest.mark.feature("F3")
def test_the_story_tells_that_ranks_started_again_warm(house, tmp_path):
    folder = write_torch(tmp_path / "light")
    variables = f"{{PYTHONPATH: {folder}}}"
    job = submit(
        house, "import os, time, torch\nwhile os.environ['DRUMBEAT_ROUND'] == '1':\n    time.sleep(0.02)", variables
    )
    wait_for_interpreters(house, 2)
    ranks(house)["1"].kill()
    assert house.client.wait(job, 120).state == "completed"
    assert "node 0: round 2 started warm" in [line.sentence for line in house.client.story(job)]
    assert "round 2 started warm" in house.run("show", job).stdout


@pytest.mark.thorough
@pytest.mark.feature("F3")
def test_ranks_start_again_warm_with_the_same_results(house):
    job = submit(house)
    wait_for_log(house, job, "round 1 fresh")
    wait_for_interpreters(house, 2)
    ranks(house)["1"].kill()
    assert house.client.wait(job, 120).state == "completed"
    story = [line.sentence for line in house.client.story(job)]
    assert "node 0: round 2 started warm" in story
    for log in house.logs(job).values():
        first, second = (re.findall("loss.*|saw.*", part) for part in log.split("round 1 fresh"))
        assert first == second
        assert "round 2 prepared" in log


@pytest.mark.thorough
def test_a_job_without_warm_start_says_that_it_starts_cold(house):
    job = submit(house, warm_start="false")
    wait_for_log(house, job, "round 1 fresh")
    ranks(house)["1"].kill()
    assert house.client.wait(job, 120).state == "completed"
    story = [line.sentence for line in house.client.story(job)]
    assert "node 0: round 2 started cold: drumbeat: {warm_start: false}" in story
    assert all("round 2 fresh" in log for log in house.logs(job).values())


@pytest.mark.thorough
@pytest.mark.feature("F3")
def test_the_next_job_of_the_same_command_starts_warm_and_nothing_stays_when_it_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(AFTER_S, "0.2")
    monkeypatch.setenv(spare_folders.IDLE_S, "120")
    monkeypatch.setenv("DRUMBEAT_CACHE", str(tmp_path / "cache"))
    stop = tmp_path / "stop"
    script = TRAIN.replace('os.environ["DRUMBEAT_ROUND"] == "1"', f"not os.path.exists({str(stop)!r})")
    try:
        with a_house(tmp_path) as house:
            first = submit(house, script)
            wait_for_interpreters(house, 2)
            stop.touch()
            assert house.client.wait(first, 120).state == "completed"
            until(spare_folders.listed, what="a spare supervisor")
            (spare,) = spare_folders.listed()
            assert "2 interpreters" in house.run("server", "status").stdout
            stop.unlink()
            second = submit(house, script)
            wait_for_log(house, second, "round 1 prepared")
            # Their variables name the first job.
            assert {rank.name for rank in target_processes.ranks(house.home, second)} == {"rank 0", "rank 1"}
            assert [supervisor.name for supervisor in target_processes.supervisors(house.home, second)] == [
                "the supervisor of node 0"
            ]
            stop.touch()
            assert house.client.wait(second, 120).state == "completed"
            assert "node 0: round 1 started warm" in [line.sentence for line in house.client.story(second)]
            for rank, log in house.logs(second).items():
                assert "round 1 prepared" in log
                assert re.findall("loss.*", log) == re.findall("loss.*", house.logs(first)[rank])
            assert not psutil.pid_exists(spare.interpreters[0])
    finally:
        for spare in spare_folders.listed():
            spare_folders.end(spare)


@pytest.mark.thorough
def test_interpreters_end_with_a_canceled_job(house):
    job = submit(house)
    wait_for_interpreters(house, 2)
    house.client.cancel(job)
    house.client.wait(job, 60)
    until(lambda: not [each for each in house.processes() if "train.py" in each.cmdline()], 20)


@pytest.mark.thorough
def test_interpreters_end_with_a_killed_supervisor(house):
    submit(house)
    wait_for_interpreters(house, 2)
    prepared = [each for each in house.processes() if "DRUMBEAT_STANDBY" in each.environ()]
    assert len(prepared) == 2
    next(each for each in house.processes() if "supervisor.supervisor" in " ".join(each.cmdline())).kill()
    until(lambda: not any(each.is_running() and each.status() != "zombie" for each in prepared), 20)
