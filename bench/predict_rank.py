"""A rank of the benchmark of predictions: trains layers whose gradients have a known size, and logs each step.

predict_rank.py LAYERS WIDTH ROWS SECONDS
"""

import sys
import time

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import drumbeat
from drumbeat import train


def main() -> None:
    """Trains until the time is over, as all ranks agree."""
    layers, width, rows, seconds = (int(word) for word in sys.argv[1:])
    train.init()
    torch.manual_seed(0)
    blocks = [part for _ in range(layers) for part in (nn.Linear(width, width, bias=False), nn.ReLU())]
    network = nn.Sequential(*blocks)
    is_alone = torch.distributed.get_world_size() == 1
    model = network if is_alone else DistributedDataParallel(network)
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-3)
    batch, end, step = torch.randn(rows, width), time.monotonic() + seconds, 0
    while _goes_on(end, step):
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        step += 1
        drumbeat.log(step=step, loss=loss)


def _goes_on(end: float, step: int) -> bool:
    """Whether there is time left, by rank 0's clock: asked every tenth step, for it is a message itself."""
    if step % 10:
        return True
    left = torch.tensor([float(time.monotonic() < end)])
    torch.distributed.broadcast(left, 0)
    return bool(left)


if __name__ == "__main__":
    main()
