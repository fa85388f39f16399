"""Checkpoints of models in parts: each rank has the weights and the optimizer of its stage again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs torch: run tools/setup.sh")

import torch
from torch import nn

from drumbeat.train import Checkpoints

pytestmark = [
    pytest.mark.feature("T5"), pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore:torch.distributed is disabled, unavailable or uninitialized:UserWarning"),
]  # fmt: skip

STAGES = """
import json, sys, torch
from pathlib import Path
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from drumbeat import train

way, folder = sys.argv[1], Path(sys.argv[2])
world = train.init("gloo")

class Part(nn.Module):
    '''One layer of the model. All parts call it the same, but where they are told apart by name.'''
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleDict({"ab"[world.rank] if way == "named" else "layer": nn.Linear(4, 4)})

    def forward(self, x):
        return next(iter(self.layers.values()))(x)

def begin():
    torch.manual_seed(world.rank)
    part = Part()
    optimizer = torch.optim.Adam(part.parameters(), lr=0.1 * (world.rank + 1))
    stage = PipelineStage(part, world.rank, world.world_size, torch.device("cpu"))
    schedule = Schedule1F1B(stage, 2, loss_fn=lambda out, target: ((out - target) ** 2).mean())
    return part, optimizer, schedule

def step(number, optimizer, schedule):
    x_b4 = torch.full((4, 4), 0.1 * number)
    optimizer.zero_grad()
    schedule.step(x_b4) if world.is_first else schedule.step(target=x_b4)
    optimizer.step()

def state(part, optimizer):
    inner = {at: [one.tolist() for one in values.values()] for at, values in optimizer.state_dict()["state"].items()}
    return {"weights": [one.tolist() for one in part.parameters()], "optimizer": inner,
            "lr": optimizer.param_groups[0]["lr"]}

def saves(part, optimizer):
    stage = {"stage": world.rank} if way == "numbered" else {}
    return train.Checkpoints(part, optimizer, folder=folder / "kept", **stage)

part, optimizer, schedule = begin()
checkpoints = saves(part, optimizer)
for number in (1, 2):
    step(number, optimizer, schedule)
try:
    checkpoints.save(2)
    checkpoints.close()
except train.checkpoints.RefusedError as error:
    (folder / f"{world.rank}.json").write_text(json.dumps(str(error)))
    train.leave()
step(3, optimizer, schedule)
unbroken = state(part, optimizer)
part, optimizer, schedule = begin()
checkpoints = saves(part, optimizer)
resumed = checkpoints.resume()
checkpoints.close()
step(3, optimizer, schedule)
(folder / f"{world.rank}.json").write_text(json.dumps([resumed, unbroken, state(part, optimizer)]))
train.leave()
"""

PARTS = """
import json, sys, torch
from pathlib import Path
from torch import nn
from drumbeat import train

folder = Path(sys.argv[1])
world = train.init("gloo")
torch.manual_seed(world.rank)
alone = train.Checkpoints(nn.Linear(2, 2), folder=folder / "alone")
alone.resume()
alone.save(1)
alone.close()
try:
    train.Checkpoints(nn.Linear(2, 2 + world.rank), folder=folder / "parts").resume()
except train.checkpoints.RefusedError as error:
    (folder / f"{world.rank}.json").write_text(json.dumps(str(error)))
train.leave()
"""


def in_two_ranks(folder: Path, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "script.py").write_text(script)
    launcher = Path(sys.executable).with_name("torchrun")
    line = [launcher, "--standalone", "--nproc-per-node", "2", folder / "script.py", *arguments, folder]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done


def told(folder: Path, rank: int) -> list[object]:
    return json.loads((folder / f"{rank}.json").read_text())


@pytest.mark.parametrize("way", ["named", pytest.param("numbered", marks=pytest.mark.thorough)])
def test_each_stage_of_a_pipeline_goes_on_with_its_own_state(tmp_path: Path, way: str):
    in_two_ranks(tmp_path, STAGES, way)
    for rank in (0, 1):
        resumed, unbroken, gone_on = told(tmp_path, rank)
        assert resumed == 2
        assert gone_on == unbroken
    if way == "named":
        check_one_rank_reads_both_stages(tmp_path)


def check_one_rank_reads_both_stages(folder: Path) -> None:
    """The names of layers are those of the whole model, so another number of stages can go on, too."""
    whole = nn.Module()
    whole.layers = nn.ModuleDict({name: nn.Linear(4, 4) for name in "ab"})
    optimizer = torch.optim.Adam([{"params": layer.parameters()} for layer in whole.layers.values()])
    saves = Checkpoints(whole, optimizer, folder=folder / "kept")
    assert saves.resume() == 2
    saves.close()
    assert [group["lr"] for group in optimizer.param_groups] == [0.1, 0.2]
    assert [int(state["step"]) for state in optimizer.state.values()] == [2] * 4


def test_stages_with_equal_names_are_refused_and_nothing_is_saved(tmp_path: Path):
    in_two_ranks(tmp_path, STAGES, "unnamed")
    for rank in (0, 1):
        assert "ranks 0 and 1 have different weights under the same names" in str(told(tmp_path, rank))
        assert "stage=0" in str(told(tmp_path, rank))
    assert not [*(tmp_path / "kept").glob("step-*")]


def test_ranks_with_other_sizes_are_refused_and_those_that_train_alone_are_told_of(tmp_path: Path):
    done = in_two_ranks(tmp_path, PARTS)
    assert "ranks 0 and 1 have different weights under the same names, and rank 0's are saved" in done.stdout
    for rank in (0, 1):
        assert "ranks 0 and 1 have different models, and both have a tensor `weight`" in str(told(tmp_path, rank))
