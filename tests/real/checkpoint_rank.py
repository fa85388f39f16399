"""Trains a few steps with checkpoints, in each rank; `FAIL_AT` says at which step rank 1 is killed in the first round.

Writes for each step the loss and what was read, and at the end a hash of the weights, to `FOLDER/ROUND-RANK.json`.
"""

import json
import os
import signal
import sys
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard

from drumbeat import train

EPOCHS, STEPS_OF_ONE_CYCLE = 3, 18


class Numbers:
    """Samples with a random part."""

    def __len__(self) -> int:
        return 50

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return torch.rand(8) + index / 50, torch.tensor([index / 50])


def make_model(way: str) -> nn.Module:
    """Dropout, so that the generator of each rank counts."""
    torch.manual_seed(1)
    network = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.3), nn.ReLU(), nn.Linear(16, 4), nn.Linear(4, 1))
    return fully_shard(network) if way == "fsdp" else nn.parallel.DistributedDataParallel(network)


def main() -> None:
    way, folder, fail_at, how = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    world, round_ = train.init(), int(os.environ.get("DRUMBEAT_ROUND", "1"))
    model = make_model(way)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.02, total_steps=STEPS_OF_ONE_CYCLE)
    loader = train.ResumableLoader(Numbers(), batch=8, seed=3)
    torch.manual_seed(100 + world.rank)
    checkpoints = train.Checkpoints(model, optimizer, loader=loader, schedule=schedule, every=4)
    step = checkpoints.resume()
    steps: dict[int, tuple[str, list[float]]] = {}
    while loader.epoch < EPOCHS:
        for x_b8, y_b1 in loader:
            loss = ((model(x_b8) - y_b1) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            step += 1
            steps[step] = (loss.item().hex(), [round(value * 50) for value in y_b1.flatten().tolist()])
            if step == fail_at and round_ == 1:
                checkpoints.wait()
                if world.rank == world.world_size - 1:
                    os.kill(os.getpid(), getattr(signal, how))
            checkpoints.step(step)
    checkpoints.close()
    weights = [p.full_tensor() if hasattr(p, "full_tensor") else p for p in model.parameters()]
    sums = [weight.detach().double().sum().item().hex() for weight in weights]
    document = {"steps": steps, "weights": sums}
    (folder / f"{round_}-{world.rank}.json").write_text(json.dumps(document), encoding="utf-8")
    train.leave()


main()
