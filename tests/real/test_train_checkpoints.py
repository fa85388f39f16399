"""`drumbeat.train.Checkpoints` in ranks of real jobs: after a fault the training goes on as if there had been none."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs torch: run tools/setup.sh")

from .house import House, a_house

SCRIPT = Path(__file__).with_name("checkpoint_rank.py")
pytestmark = [pytest.mark.feature("T5"), pytest.mark.timeout(900)]
LAST_STEP = 18


def run_job(house: House, tmp_path: Path, way: str, fail_at: int, how: str = "SIGKILL") -> tuple[Any, str, Path]:
    """Runs the script in two ranks. Returns the job, the log of rank 0 of its last round, and the folder of results."""
    folder, code = tmp_path / f"{way}-{fail_at}-{how}", tmp_path / "code"
    folder.mkdir()
    code.mkdir(exist_ok=True)
    shutil.copy(SCRIPT, code)
    wanted = {
        "command": f"{sys.executable} {SCRIPT.name} {way} {folder} {fail_at} {how}",
        "code": str(code),
        "distribution": {"type": "pytorch", "process_count_per_instance": 2},
        "drumbeat": {"max_retries": 1, "checkpoints": {"keep": 2}},
    }
    ended = house.client.wait(house.client.submit(wanted).name, 300)
    assert ended is not None
    assert ended.state == "completed", ended.sentence
    return ended, house.logs(ended.name)[0], folder


def results(folder: Path, round_: int, ranks: int = 2) -> list[dict[str, Any]]:
    return [json.loads((folder / f"{round_}-{rank}.json").read_text()) for rank in range(ranks)]


def check_goes_on(house: House, tmp_path: Path, way: str, how: str, resumed_after: int) -> None:
    """A job that is hit at step 10 has from then on the losses, data and weights of one that isn't, to the last bit."""
    _, _, unbroken_folder = run_job(house, tmp_path, way, 0)
    job, said, folder = run_job(house, tmp_path, way, 10, how)
    assert f"resuming after step {resumed_after}" in said
    for unbroken, resumed in zip(results(unbroken_folder, 1), results(folder, 2), strict=True):
        assert resumed["weights"] == unbroken["weights"]
        assert list(resumed["steps"]) == [str(step) for step in range(resumed_after + 1, LAST_STEP + 1)]
        assert resumed["steps"] == {step: unbroken["steps"][step] for step in resumed["steps"]}
    kept = house.home / "jobs" / job.name / "checkpoints"
    assert sorted(path.name for path in kept.glob("step-*")) == ["step-000000000012", "step-000000000016"]


def test_a_killed_rank_goes_on_to_the_same_bits(tmp_path: Path):
    with a_house(tmp_path / "home") as house:
        check_goes_on(house, tmp_path, "ddp", "SIGKILL", resumed_after=8)


@pytest.mark.thorough
@pytest.mark.parametrize(("way", "how", "resumed_after"), [("fsdp", "SIGKILL", 8), ("ddp", "SIGTERM", 10)])
def test_shards_and_ranks_asked_to_end_go_on_too(tmp_path: Path, way: str, how: str, resumed_after: int):
    with a_house(tmp_path / "home") as house:
        check_goes_on(house, tmp_path, way, how, resumed_after)


def torchrun(ranks: int, way: str, folder: Path, checkpoints: Path, *, fail_at: int = 0) -> subprocess.CompletedProcess:
    launcher = Path(sys.executable).with_name("torchrun")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "DRUMBEAT_CHECKPOINT_DIR": str(checkpoints)}
    line = [launcher, "--standalone", "--nproc-per-node", str(ranks), SCRIPT, way, folder, str(fail_at), "SIGKILL"]
    return subprocess.run(line, env=environment, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.thorough
@pytest.mark.parametrize("way", ["ddp", "fsdp"])
def test_another_number_of_ranks_reads_the_rest_of_the_data_once(tmp_path: Path, way: str):
    """Two ranks are killed after step 10; four go on after step 8, and read what one training would have read."""
    unbroken, broken = tmp_path / "unbroken", tmp_path / "broken"
    for folder in (unbroken, broken):
        folder.mkdir()
    assert torchrun(2, way, unbroken, tmp_path / "a").returncode == 0
    assert torchrun(2, way, broken, tmp_path / "b", fail_at=10).returncode != 0
    done = torchrun(4, way, broken, tmp_path / "b")
    assert done.returncode == 0, done.stderr
    expected, found = results(unbroken, 1), results(broken, 1, ranks=4)
    for step in map(str, range(9, LAST_STEP + 1)):
        assert samples(found, step) == samples(expected, step)


def samples(ranks: list[dict[str, Any]], step: str) -> list[int]:
    """What all ranks together have read in a step."""
    return sorted(chain.from_iterable(rank["steps"][step][1] for rank in ranks))


@pytest.mark.thorough
def test_a_broken_checkpoint_is_named_and_put_aside(tmp_path: Path):
    folder, kept = tmp_path / "results", tmp_path / "kept"
    folder.mkdir()
    assert torchrun(2, "ddp", folder, kept, fail_at=10).returncode != 0
    shard = next((kept / "step-000000000008").glob("*.distcp"))
    shard.write_bytes(shard.read_bytes()[:-1])
    done = torchrun(2, "ddp", folder, kept)
    assert "step 8 is broken and put aside" in done.stdout
    assert "resuming after step 4" in done.stdout
    assert min(path.name for path in kept.glob("step-*")) == "step-000000000008"
    assert "broken" not in torchrun(2, "ddp", folder, kept).stdout


DIFFERS_BY_RANK = """
import json, sys, torch
from pathlib import Path
from drumbeat import train

way, folder = sys.argv[1], Path(sys.argv[2])
world = train.init()

def make():
    torch.manual_seed(7)
    network = torch.nn.Sequential(*(torch.nn.BatchNorm1d(4) for _ in range(6)))
    model = torch.nn.parallel.DistributedDataParallel(network) if way in ("ddp", "compiled") else network
    model = torch.compile(model, backend="eager") if way == "compiled" else model
    optimizer = torch.optim.Adam(model.parameters(), 0.1)
    return network, model, train.local_sgd(optimizer, every=3) if way == "local_sgd" else optimizer

network, model, optimizer = make()
torch.manual_seed(world.rank)
for _ in range(3):
    optimizer.zero_grad()
    (model(torch.randn(8, 4)) ** 3).sum().backward()
    optimizer.step()
checkpoints = train.Checkpoints(model, optimizer, folder=folder / "kept")
checkpoints.save(3)
checkpoints.close()
def state(network, optimizer):
    inner = {at: values["exp_avg"].tolist() for at, values in optimizer.state_dict()["state"].items()}
    model = {name: one.tolist() for name, one in network.state_dict().items()}
    return {"model": model, "optimizer": inner, "steps": optimizer.state_dict().get("step")}

before = state(network, optimizer)
network, model, optimizer = make()
train.Checkpoints(model, optimizer, folder=folder / "kept").resume()
after = state(network, optimizer)
(folder / f"{world.rank}.json").write_text(json.dumps([before, after]))
train.leave()
"""


@pytest.mark.parametrize(
    "way", ["ddp", "local_sgd", *(pytest.param(one, marks=pytest.mark.thorough) for one in ("compiled", "alone"))]
)
def test_what_differs_between_ranks_is_saved_from_one_of_them(tmp_path: Path, way: str):
    """With DDP it is what batch norms have counted; without, as between the means of local SGD, it is all of it."""
    (tmp_path / "script.py").write_text(DIFFERS_BY_RANK)
    launcher = Path(sys.executable).with_name("torchrun")
    line = [launcher, "--standalone", "--nproc-per-node", "2", tmp_path / "script.py", way, tmp_path]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    (first, resumed), (other, resumed_other) = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1))
    assert first["model"] != other["model"]
    by_rank = [(tmp_path / "kept" / "step-000000000003" / f"__{rank}_0.distcp").stat().st_size for rank in (0, 1)]
    assert (by_rank[1] > by_rank[0] / 2) == (way in ("ddp", "compiled"))  # What is equal is divided.
    assert resumed == resumed_other == first


BEGINS_ANEW = """
import sys, torch
from drumbeat.train import Checkpoints
saves = Checkpoints(torch.nn.Linear(1, 1), folder=sys.argv[1])
for step in map(int, sys.argv[2:]):
    saves.save(step)
saves.close()
"""


def begin_anew(folder: Path, *steps: int, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", BEGINS_ANEW, str(folder), *map(str, steps)]
    return subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, check=False, timeout=120)


def test_a_training_that_begins_anew_keeps_all_later_steps_and_hears_of_them(tmp_path: Path):
    assert "resume" not in begin_anew(tmp_path, 100, 110, DRUMBEAT_CHECKPOINT_KEEP="2").stdout
    told = begin_anew(tmp_path, 5, 10, DRUMBEAT_CHECKPOINT_KEEP="2").stdout
    assert told.count("the folder also has step 110, from which `resume` would continue") == 1
    assert sorted(path.name for path in tmp_path.glob("step-*")) == [f"step-{step:012}" for step in (5, 10, 100, 110)]


def test_a_number_of_checkpoints_that_is_none_is_refused_in_words(tmp_path: Path):
    done = begin_anew(tmp_path, 5, DRUMBEAT_CHECKPOINT_KEEP="all")
    assert done.returncode == 1
    assert "DRUMBEAT_CHECKPOINT_KEEP is 'all', which isn't a number" in done.stderr


NEVER_VOTES = """
import signal, sys, time
from pathlib import Path
import torch
from drumbeat import train

signal.alarm(90)  # A rank that hangs must not outlive its test.
raised = Path(sys.argv[1]) / "raised"
world = train.init("gloo", timeout_s=2)
checkpoints = train.Checkpoints(torch.nn.Linear(1, 1), folder=Path(sys.argv[1]) / "kept")
if world.rank == 0:
    try:
        checkpoints.step(1)
    except RuntimeError as error:
        raised.write_text(str(error))
while not raised.exists():
    time.sleep(0.1)
"""


def test_a_rank_that_never_votes_is_waited_for_as_long_as_init_says(tmp_path: Path):
    (tmp_path / "script.py").write_text(NEVER_VOTES)
    run_in_two_ranks(tmp_path / "script.py", tmp_path, timeout_s=60)
    assert "imed out" in (tmp_path / "raised").read_text()


def run_in_two_ranks(script: Path, *arguments: str | Path, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
    launcher = Path(sys.executable).with_name("torchrun")
    line = [launcher, "--standalone", "--nproc-per-node", "2", script, *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(line, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False)
