"""On a machine with an NVIDIA GPU and a torch that uses it: who gets the GPU, what it says when it fails, what is left.

Left out where there is none. They use the first of several.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from drumbeat.node.host.gpus import gpus

from .gpus import CPU, job_of, run_job, said, used_mib
from .house import House, a_house, until

pytestmark = pytest.mark.gpu

RECIPE = Path(__file__).parents[2] / "recipes" / "fashion_mnist"

SEES = """
import json, os, torch
import torch.distributed as dist
seen = {"visible": os.environ["CUDA_VISIBLE_DEVICES"], "devices": torch.cuda.device_count()}
if seen["devices"]:
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    dist.init_process_group("nccl", init_method="env://", device_id=device)
    one = torch.ones(1 << 20, device=device)
    dist.all_reduce(one)
    seen.update(sum=one.sum().item(), backend=dist.get_backend(), world=dist.get_world_size())
    dist.destroy_process_group()
print(json.dumps(seen))
"""
HOLDS = """
import os, subprocess, sys, time
import torch
print("free", torch.cuda.mem_get_info()[0] >> 20)
block = torch.empty(8 << 30, dtype=torch.uint8, device="cuda").fill_(1)
torch.cuda.synchronize()
print("holds", flush=True)
"""


@pytest.fixture(scope="module")
def house(first_gpu: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with a_house(tmp_path_factory.mktemp("house")) as there:
        yield there


# --- who gets it -------------------------------------------------------------------------------------------------
@pytest.mark.feature("L11")
def test_this_machine_is_shown_with_its_gpus(house: House):
    listed = subprocess.run(["nvidia-smi", "--list-gpus"], capture_output=True, text=True, check=True).stdout
    assert len(gpus({})) == sum(line.startswith("GPU ") for line in listed.splitlines())
    shown = house.run("compute", "show", "local").stdout
    assert "1 of 1 free" in shown, shown


@pytest.mark.feature("L9", "L11")
@pytest.mark.parametrize(
    "command",
    [
        "python t.py",
        "python -m torch.distributed.run --nproc-per-node gpu --master-port $MASTER_PORT t.py",
        "python -m torch.distributed.run --nproc-per-node 1 --master-port $MASTER_PORT t.py",
        "python -m accelerate.commands.launch --num_processes 1 --main_process_port $MASTER_PORT t.py",
    ],
    ids=["ranks", "torchrun-gpu", "torchrun", "accelerate"],
)
def test_ranks_meet_over_nccl_on_the_gpu_that_is_the_jobs(house: House, command: str):
    job = run_job(house, SEES, command)
    assert job.state == "completed", (job.sentence, house.logs(job.name))
    assert said(house, job) == {"visible": "0", "devices": 1, "sum": float(1 << 20), "backend": "nccl", "world": 1}


@pytest.mark.feature("L11")
def test_a_job_for_cpus_sees_no_gpu(house: House):
    job = run_job(house, SEES, resources=CPU)
    assert job.state == "completed", (job.sentence, house.logs(job.name))
    assert said(house, job) == {"visible": "", "devices": 0}


@pytest.mark.feature("L11")
def test_without_a_word_of_it_a_rank_takes_the_gpu(house: House):
    assert said(house, run_job(house, SEES, resources="{instance_count: 1}"))["visible"] == "0"


@pytest.mark.feature("L11", "C3")
def test_a_second_job_waits_for_the_gpu_and_says_so(house: House):
    go = house.folder / "go"
    first = house.client.submit(job_of(house, SEES, f"until [ -e {go} ]; do sleep 0.1; done"))
    second = house.client.submit(job_of(house, SEES))
    until(lambda: first.name in house.client.get(second.name).sentence, what="the reason to wait")
    sentence = house.client.get(second.name).sentence
    assert "needs 1 CPU slot and 1 GPU of local" in sentence
    assert "and 0 GPUs are free" in sentence
    go.touch()
    ended = house.client.wait(second.name, 120)
    assert ended is not None
    assert ended.state == "completed", ended.sentence


@pytest.mark.feature("L11")
@pytest.mark.parametrize(
    ("resources", "words"),
    [
        ("{instance_type: 'gpu:64'}", "64 GPUs"),
        ("{instance_type: gpu, instance_count: 64}", "1 CPU slot and 1 GPU on each of 64 nodes"),
    ],
)
def test_more_gpus_than_there_are_is_refused_by_number(house: House, resources: str, words: str):
    result = house.run("run", job_of(house, SEES, resources=resources))
    assert result.returncode != 0
    assert words in " ".join((result.stdout + result.stderr).split()), result.stdout + result.stderr


@pytest.mark.feature("L9")
def test_the_recipe_trains_on_it(house: House):
    data = house.folder / "digits"
    subprocess.run([sys.executable, RECIPE / "make_digits.py", data], check=True)
    changes = ("--set", f"inputs.data.path={data}", "--set", "distribution.process_count_per_instance=1")
    one = ("--set", "resources.instance_count=1", "--set", "resources.instance_type=gpu", "--name", "on-gpu")
    done = house.run("run", RECIPE / "job.yml", *changes, *one, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    log = house.logs("on-gpu")[0]
    assert "1 ranks on cuda" in log
    assert float(re.search(r"test: loss=[\d.]+ accuracy=([\d.]+)", log)[1]) >= 0.97


# --- what is left ------------------------------------------------------------------------------------------------
FORKS = f"""{HOLDS}
own = "import sys; exec(sys.stdin.read())"
daemon = subprocess.Popen(["setsid", "nohup", sys.executable, "-c", own], stdin=subprocess.PIPE, text=True)
daemon.stdin.write({HOLDS!r} + "time.sleep(9999)")
daemon.stdin.close()
time.sleep(9999)
"""
SPINS = """
import torch
spin = torch.cuda._compile_kernel('extern "C" __global__ void spin(volatile int* p) { while (!*p) { } }', "spin")
flag = torch.zeros(1, dtype=torch.int32, device="cuda")
print("holds", flush=True)
spin((1, 1, 1), (1, 1, 1), (flag,))
torch.cuda.synchronize()
"""


@pytest.mark.feature("F6")
@pytest.mark.parametrize(("script", "holders"), [(FORKS, 2), (SPINS, 1)], ids=["a-daemon", "a-kernel-without-end"])
def test_the_gpus_memory_is_free_once_the_job_has_ended(house: House, script: str, holders: int):
    before = used_mib()
    job = house.client.submit(job_of(house, script))
    until(lambda: house.logs(job.name).get(0, "").count("holds\n") == holders, 120, "the grip on the GPU")
    assert used_mib() > before
    house.client.cancel(job.name)
    ended = house.client.wait(job.name, 60)
    assert ended is not None
    assert (ended.state, used_mib()) == ("canceled", before)


@pytest.mark.feature("F3")
def test_a_rank_that_was_killed_finds_the_memory_free_when_it_comes_back(house: House):
    script = f"{HOLDS}\nif os.environ['DRUMBEAT_ROUND'] == '1': os.kill(os.getpid(), 9)\n"
    job = run_job(house, script, drumbeat="{max_retries: 1}")
    log = house.logs(job.name)[0]
    assert job.state == "completed", (job.sentence, log)
    first, second = re.findall(r"^free (\d+)", log, re.MULTILINE)
    assert first == second


# --- what it says when it fails ------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Fault:
    """A script that fails on the GPU. said: words of the job's sentence. advice: of what to do. keys: of its job."""

    script: str
    said: str
    advice: str
    keys: dict[str, str] = field(default_factory=dict)


FAULTS = {
    "its memory is full": Fault(
        "import torch\nmodel = [torch.empty(60 << 30, dtype=torch.uint8, device='cuda') for _ in range(9)]\n",
        "CUDA out of memory. Tried to allocate 60.00 GiB", "smaller batch or model",
    ),
    "a label beyond the classes": Fault(
        "import torch\nlogits = torch.randn(64, 10, device='cuda', requires_grad=True)\n"
        "loss = torch.nn.functional.cross_entropy(logits, torch.full((64,), 10, device='cuda'))\nprint(loss.item())\n",
        "device-side assert", "CUDA_LAUNCH_BLOCKING",
    ),
    "memory that isn't its own": Fault(
        "import torch\nbad = torch.cuda._compile_kernel('extern \"C\" __global__ void bad(float* p) "
        "{ p[1ull << 42] = 1; }', 'bad')\nx = torch.zeros(8, device='cuda')\nbad((1, 1, 1), (1, 1, 1), (x,))\n"
        "torch.cuda.synchronize()\n",
        "illegal memory access", "CUDA_LAUNCH_BLOCKING",
    ),
    "a device that isn't there": Fault(
        "import torch\ntorch.cuda.set_device(7)\n", "invalid device ordinal", "LOCAL_RANK",
    ),
    "no GPU was given": Fault(
        "import torch\nprint(torch.zeros(1).cuda())\n", "No CUDA GPUs are available", "instance_type: gpu",
        {"resources": CPU},
    ),
    "a forked worker": Fault(
        "import torch\ntorch.zeros(1, device='cuda')\nclass Images(torch.utils.data.Dataset):\n"
        "    def __len__(self): return 8\n"
        "    def __getitem__(self, i): return torch.ones(1, device='cuda')\n"
        "print(sum(torch.utils.data.DataLoader(Images(), num_workers=2, multiprocessing_context='fork')))\n",
        "Cannot re-initialize CUDA in forked subprocess", "spawn",
    ),
    "two ranks on one GPU": Fault(
        "import torch, torch.distributed as dist\ntorch.cuda.set_device(0)\ndist.init_process_group('nccl')\n"
        "dist.all_reduce(torch.ones(1, device='cuda'))\n",
        "ncclInvalidUsage: Duplicate GPU detected", "LOCAL_RANK",
        {"command": "python -m torch.distributed.run --nproc-per-node 2 --master-port $MASTER_PORT t.py",
         "resources": "{instance_type: 'gpu:1'}"},
    ),
}  # fmt: skip


@pytest.mark.feature("F1", "F2")
@pytest.mark.parametrize("name", FAULTS)
def test_a_failure_on_the_gpu_is_named_with_what_to_do(house: House, name: str):
    fault = FAULTS[name]
    job = run_job(house, fault.script, **fault.keys)
    assert (job.state, job.reason) == ("failed", "rank_failed")
    assert fault.said in job.sentence
    assert job.sentence.endswith("the same error at the same place twice")
    assert job.verdict is not None
    assert fault.advice in job.verdict.advice
