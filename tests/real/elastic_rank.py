"""Trains a tiny model with checkpoints on however many ranks there are, slowly enough for nodes to come and go.

Each rank appends what it read at each step to `FOLDER/ATTEMPT-RANK.jsonl`; rank 0 writes the weights at the end.
"""

import json
import os
import sys
import time
from pathlib import Path

import torch
from torch import Tensor, nn

from drumbeat import train

SAMPLES, BATCH, EPOCHS, SEED = 60, 6, 80, 5
EVERY, STEP_S = 5, 0.1


class Line:
    """Points on a line; none of them is random."""

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        x = torch.tensor([index / SAMPLES])
        return x, 3 * x - 1


def make_model() -> nn.Module:
    torch.manual_seed(1)
    return nn.Linear(1, 1).double()


def loss_of(model: nn.Module, x_b1: Tensor, y_b1: Tensor) -> Tensor:
    return ((model(x_b1.double()) - y_b1.double()) ** 2).mean()


def main() -> None:
    folder, attempt = Path(sys.argv[1]), os.environ["DRUMBEAT_ATTEMPT"]
    world = train.init()
    model = nn.parallel.DistributedDataParallel(make_model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loader = train.ResumableLoader(Line(), batch=BATCH, seed=SEED)
    checkpoints = train.Checkpoints(model, optimizer, loader=loader, every=EVERY)
    step = checkpoints.resume()
    with (folder / f"{attempt}-{world.rank}.jsonl").open("a") as read:
        while loader.epoch < EPOCHS:
            for x_b1, y_b1 in loader:
                loss = loss_of(model, x_b1, y_b1)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                step += 1
                indices = [round(value * SAMPLES) for value in x_b1.flatten().tolist()]
                read.write(json.dumps([step, indices]) + "\n")
                read.flush()
                time.sleep(STEP_S)
                checkpoints.step(step)
    checkpoints.close()
    if world.rank == 0:
        (folder / "weights.json").write_text(json.dumps([one.item() for one in model.parameters()]))
    train.leave()


if __name__ == "__main__":
    main()
