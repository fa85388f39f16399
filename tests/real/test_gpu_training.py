"""Trainings on a machine with a GPU: its metrics, checkpoints of CUDA tensors, and the recipes' options for GPUs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from drumbeat.model.api.jobs import JobView
from tools.imagenet import FLOOR

from .gpus import GPU, run_job
from .house import House, a_house

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(400)]

RECIPES = Path(__file__).parents[2] / "recipes"


@pytest.fixture(scope="module")
def house(first_gpu: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with a_house(tmp_path_factory.mktemp("house")) as there:
        yield there


# --- metrics -----------------------------------------------------------------------------------------------------
WORKS = """
import time
import torch
block = torch.empty(4 << 30, dtype=torch.uint8, device="cuda").fill_(1)
large = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
end = time.monotonic() + 16
while time.monotonic() < end:
    for _ in range(30):
        torch.mm(large, large)
    torch.cuda.synchronize()
print(torch.cuda.get_device_properties(0).total_memory)
"""


@pytest.mark.feature("M2")
def test_gpu_of_a_rank_that_computes_is_seen_in_the_metrics(house: House) -> None:
    job = run_job(house, WORKS, drumbeat="{system_metrics: true}")
    assert job.state == "completed", house.logs(job.name)
    total_mib = int(house.logs(job.name)[0].splitlines()[-1]) / 2**20
    printed = house.run("metrics", job.name, "--json")
    assert printed.returncode == 0, printed.stderr
    points = json.loads(printed.stdout)
    highest = {(one["rank"], one["name"]): 0.0 for one in points}
    for one in points:
        highest[one["rank"], one["name"]] = max(highest[one["rank"], one["name"]], one["value"])
    node = {name: value for (rank, name), value in highest.items() if rank == -1}
    assert node["system/gpu_0_percent"] == pytest.approx(100, abs=20), node
    assert 4096 < node["system/gpu_0_memory_mib"] < total_mib
    assert 100 * node["system/gpu_0_memory_mib"] / total_mib == pytest.approx(
        node["system/gpu_0_memory_percent"], abs=3
    )
    assert 100 < node["system/gpu_0_power_w"] < 1000
    assert 15 < node["system/gpu_0_temperature_c"] < 100
    own = highest[0, "system/gpu_memory_mib"]
    assert 4096 < own <= node["system/gpu_0_memory_mib"]


# --- checkpoints -------------------------------------------------------------------------------------------------
SAVES = """
import json, os, time
import torch
from torch import nn
from drumbeat import train

world = train.init()
torch.manual_seed(7)

def make():
    layers = [nn.Linear(4096, 4096) for _ in range(4)]
    model = nn.parallel.DistributedDataParallel(nn.Sequential(*layers).cuda(), device_ids=[0])
    return model, torch.optim.AdamW(model.parameters(), 1e-4)

def step(model, optimizer):
    optimizer.zero_grad()
    loss = model(torch.randn(64, 4096, device="cuda")).square().mean()
    loss.backward()
    optimizer.step()
    return loss.item()

def state(model, optimizer):
    own = [*model.state_dict().values(), *(v for s in optimizer.state.values() for v in s.values())]
    return [value.detach().cpu().clone() for value in own]

model, optimizer = make()
checkpoints = train.Checkpoints(model, optimizer, every=2)
assert checkpoints.resume() == 0
losses = []
for number in range(1, 5):
    losses.append(step(model, optimizer))
    if number == 4:
        saved, drawn_from = state(model, optimizer), torch.cuda.get_rng_state()
    checkpoints.step(number)
begun = time.monotonic()
while_written = 0
while not checkpoints._pending.done():
    step(model, optimizer)
    while_written += 1
write_s = time.monotonic() - begun
stalls = list(checkpoints.stalls_s)
checkpoints.close()
torch.cuda.synchronize()

other, other_optimizer = make()
step(other, other_optimizer)
again = train.Checkpoints(other, other_optimizer)
assert again.resume() == 4
loaded = state(other, other_optimizer)
equal = len(loaded) == len(saved) and all(
    one.dtype == two.dtype and torch.equal(one.view(-1).view(torch.uint8), two.view(-1).view(torch.uint8))
    for one, two in zip(loaded, saved)
)
random = torch.equal(torch.cuda.get_rng_state(), drawn_from)
devices = {value.device.type for value in other.state_dict().values()}
again.close()
size = sum(value.numel() * value.element_size() for value in saved)
print(json.dumps({"equal": equal, "random": random, "devices": sorted(devices), "bytes": size, "stalls_s": stalls,
                  "write_s": write_s, "steps_while_written": while_written, "backend": world.backend}), flush=True)
train.leave()
"""


@pytest.mark.feature("T5")
def test_checkpoint_of_a_model_on_the_gpu_is_loaded_byte_for_byte(
    house: House, record_property: Callable[..., None]
) -> None:
    job = run_job(house, SAVES)
    assert job.state == "completed", (job.sentence, house.logs(job.name))
    lines = [line for line in house.logs(job.name)[0].splitlines() if line.startswith("{")]
    seen = json.loads(lines[-1])
    record_property("seen", seen)
    assert (seen["equal"], seen["random"], seen["devices"], seen["backend"]) == (True, True, ["cuda"], "nccl")
    # 3 × 268 MB are copied; the training goes on while they are written.
    assert max(seen["stalls_s"]) < 10
    assert seen["steps_while_written"] > 0


# --- the recipes' options ----------------------------------------------------------------------------------------
SPY = """
import json, os, runpy, sys
from torch.profiler import ProfilerActivity, profile

os._exit = sys.exit
sys.argv = sys.argv[1:]
sys.path.insert(0, os.getcwd())
seen = profile(activities=[ProfilerActivity.CUDA])
seen.start()
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
finally:
    seen.stop()
    print("kernels", json.dumps(sorted({event.name() for event in seen.profiler.kineto_results.events()})), flush=True)
"""
"""Runs a script, and prints the names of the kernels that ran on the GPU."""


def run_recipe(house: House, recipe: str, command: str, **keys: str) -> tuple[JobView, str, list[str]]:
    """Runs a copy of a recipe with the options. Returns the job, its log and the names of the kernels."""
    name = f"{recipe}-{abs(hash(command)) % 10**6}"
    shutil.copytree(RECIPES / recipe, house.folder / name, ignore=shutil.ignore_patterns("data", "__pycache__"))
    house.script(SPY, name, "spy.py")
    path = house.job_file(
        name, code=".", command=f"python spy.py {command}", resources=GPU, distribution="{type: pytorch}", **keys
    )
    job = house.client.submit(path)
    ended = house.client.wait(job.name, 300)
    log = house.logs(job.name)[0]
    assert ended is not None, log
    assert ended.state == "completed", (ended.sentence, log)
    (kernels,) = re.findall(r"^kernels (\[.*\])$", log, re.MULTILINE)
    return ended, log, json.loads(kernels)


@pytest.fixture(scope="module")
def jpegs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("imagenet")
    subprocess.run([sys.executable, RECIPES / "imagenet" / "make_images.py", folder, "--test-images", "25"], check=True)
    return folder


@pytest.mark.feature("T6")
@pytest.mark.parametrize(
    ("options", "expected", "absent"),
    [
        ("", (), ("bf16", "triton_")),
        ("--precision bf16 --channels-last", ("bf16", "nhwc"), ("triton_",)),
        ("--precision bf16 --channels-last --compile", ("bf16", "triton_"), ()),
    ],
    ids=["plain", "bf16", "compiled"],
)
def test_options_of_the_imagenet_recipe_act_and_it_learns(
    house: House, jpegs: Path, options: str, expected: tuple[str, ...], absent: tuple[str, ...]
) -> None:
    command = (
        f"train_pytorch.py --train {jpegs}/train --test {jpegs}/val --batch-size 16 --image-size 48 --base-lr 0.04 "
        f"--warmup-epochs 1 --epochs 5 --workers 4 {options}"
    )
    _, log, kernels = run_recipe(house, "imagenet", command)
    assert "on cuda by" in log
    losses = [float(one) for one in re.findall(r"loss[=:] ?([\d.]+)", log)]
    assert losses[-1] < losses[0]
    assert float(re.findall(r"accuracy[=:] ?([\d.]+)", log)[-1]) >= FLOOR
    names = " ".join(kernels)
    assert all(word in names for word in expected), kernels
    assert not any(word in names for word in absent), kernels


@pytest.mark.feature("T3")
@pytest.mark.parametrize(
    "options", ["", "--precision bf16", "--precision bf16 --compile"], ids=["plain", "bf16", "compiled"]
)
def test_gpt_recipe_learns_on_the_gpu_with_each_option(house: House, options: str) -> None:
    _, log, kernels = run_recipe(house, "gpt", f"train.py --steps 200 {options}")
    losses = [float(one) for one in re.findall(r"loss=([\d.]+) words", log)]
    assert losses[-1] < losses[0]
    names = " ".join(kernels)
    assert ("bf16" in names or "bfloat16" in names) is ("bf16" in options), kernels
    assert ("triton_" in names) is ("compile" in options), kernels
    assert ("flash" in names) is ("bf16" in options), kernels


@pytest.mark.feature("T6")
@pytest.mark.skipif(find_spec("fastai") is None, reason="fastai isn't installed: pip install fastai")
def test_ships_recipe_trains_on_the_gpu(house: House, tmp_path: Path) -> None:
    own = RECIPES / "ships"
    for line in (
        [own / "make_images.py", tmp_path / "data", "--images", "24", "--seed", "1"],
        [own / "prepare.py", "--data", tmp_path / "data", "--to", tmp_path / "prepared"],
    ):
        subprocess.run([sys.executable, *line], check=True, stdout=subprocess.DEVNULL)
    options = f"--data {tmp_path}/prepared --image-size 64 --epochs 2 --batch-size 8 --model-dir {tmp_path}/model"
    for script in ("classify.py", "segment.py"):
        _, log, kernels = run_recipe(house, "ships", f"{script} {options}")
        assert kernels, log
        assert "nccl" in log
        assert (tmp_path / "model" / "metrics.json").exists()
