"""One of two ranks that try drumbeat.train's rare and small updates on numbers that can be computed by hand.

low_bandwidth_rank.py FOLDER: what each part gave, as JSON.
"""

import json
import os
import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from drumbeat import train
from drumbeat.train.outer_steps import OuterSteps, average, local_sgd
from drumbeat.train.parameter_server import AsynchronousUpdates


class Number(nn.Module):
    """One weight, and a buffer that every rank has otherwise."""

    def __init__(self, weight, mean=0.0):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([weight]))
        self.register_buffer("mean", torch.tensor([mean]))


def descend(model, move):
    with torch.no_grad():
        model.weight -= move


def outer_steps(rank):
    """Rank 0 goes 0.1 in each inner step, rank 1 goes 0.3; an outer step after two."""
    model, seen = Number(1.0 if rank == 0 else 5.0, float(rank)), []
    steps = OuterSteps(model, every=2, rate=0.5, momentum=0.9)
    for number in range(6):
        if number == 2:  # As after a restart from a checkpoint.
            stored = steps.state_dict()
            steps = OuterSteps(model, every=2, rate=0.5, momentum=0.9)
            steps.load_state_dict(stored)
        descend(model, (0.1, 0.3)[rank])
        model.mean += rank
        assert steps.step() == (number % 2 == 1)
        seen += [model.weight.item()] if number % 2 else []
    return [*seen, model.mean.item()]


def plain_means(rank):
    """Local SGD by torch's averager, and as an outer step without momentum."""
    model = Number(1.0)
    optimizer = local_sgd(torch.optim.SGD(model.parameters(), lr=1.0), every=2)
    seen = []
    for _ in range(4):
        model.weight.grad = torch.tensor([(0.1, 0.3)[rank]])
        optimizer.step()
        seen.append(model.weight.item())
    average(model)
    other = Number(1.0)
    steps = OuterSteps(other, every=1, rate=1.0, momentum=0.0, dtype=torch.bfloat16)
    descend(other, (0.25, 0.75)[rank])
    steps.step()
    return [*seen, model.weight.item(), other.weight.item()]


def plain_ddp(rank):
    """The weights of the two ways by DDP's rule, and what outer steps say that they send."""
    os.environ["DRUMBEAT_UPDATES"] = "ddp"
    model, other, found = Number(1.0), Number(1.0), []
    outer, optimizer = OuterSteps(model, every=2), torch.optim.SGD(model.parameters(), lr=1.0)
    averaged = local_sgd(torch.optim.SGD(other.parameters(), lr=1.0), every=2)
    for _ in range(2):
        for weight in (model.weight, other.weight):
            weight.grad = torch.tensor([(0.1, 0.3)[rank]])
        optimizer.step()
        outer.step()
        averaged.step()
        found += [model.weight.item(), other.weight.item()]
    del os.environ["DRUMBEAT_UPDATES"]
    return found


def means_of_doubles(rank):
    """Weights of 64 bits, equal on both ranks: by a plain mean, and by an outer step."""
    model = nn.Module()
    model.weight = nn.Parameter(torch.tensor([0.1, 1e-9], dtype=torch.float64))
    average(model)
    plain = model.weight.tolist()
    steps = OuterSteps(model, every=1, rate=1.0, momentum=0.0)
    descend(model, 0.3)
    steps.step()
    return [*plain, *model.weight.tolist()]


def compressed(rank, kind):
    """The gradient of the third step: ranks have u·v and 3u·v, so its mean 2u·v is a matrix of rank 1."""
    model = DistributedDataParallel(nn.Linear(8, 8, bias=False))
    train.compress(model, kind, rank=1, begin=2)
    inputs, weights = torch.arange(1.0, 9.0), torch.tensor([1.0, 2, 0, 1, 0.5, 1, 4, 1]) * (1, 3)[rank]
    for _ in range(4):
        model.zero_grad()
        (model(inputs) * weights).sum().backward()
    return model.module.weight.grad.flatten().tolist()


def many_buckets(rank):
    """The sums of the last gradients of six layers, each with a bucket of its own."""
    torch.manual_seed(3)
    layers = [nn.Linear(32, 32, bias=False) for _ in range(6)]
    model = DistributedDataParallel(nn.Sequential(*layers), bucket_cap_mb=0.001)
    train.compress(model, "powersgd", rank=2, begin=2)
    for step in range(60):
        model.zero_grad()
        draw = torch.Generator().manual_seed(2 * step + rank)
        model(torch.randn(4, 32, generator=draw)).square().sum().backward()
    return [layer.weight.grad.sum().item() for layer in layers]


def decaying_frozen_weights(weights):
    """An optimizer whose weight decay would halve the second weight in each step that gives it a gradient."""
    groups = [{"params": weights[:1]}, {"params": weights[1:], "weight_decay": 5.0}]
    return torch.optim.SGD(groups, lr=0.1)


def served(rank):
    """Each rank pushes three gradients of 1 or 2 at a rate of 0.1: the end is 10 - 0.1 · (3 + 6) in any order."""
    model = Number(10.0 if rank == 0 else 0.0)
    model.frozen = nn.Parameter(torch.tensor([4.0]), requires_grad=False)
    updates = AsynchronousUpdates(model, decaying_frozen_weights)
    first = model.weight.item()
    for _ in range(3):
        model.weight.grad = torch.tensor([1.0 + rank])
        updates.step()
    updates.finish()
    return [first, model.weight.item(), len(updates.staleness), min(updates.staleness), model.frozen.item()]


def main():
    torch.set_num_threads(1)
    rank = train.init().rank
    found = {
        "plain_ddp": plain_ddp(rank), "outer": outer_steps(rank), "means": plain_means(rank),
        "doubles": means_of_doubles(rank), "served": served(rank), "buckets": many_buckets(rank),
        **{kind: compressed(rank, kind) for kind in ("fp16", "bf16", "powersgd")},
    }  # fmt: skip
    (Path(sys.argv[1]) / f"{rank}.json").write_text(json.dumps(found))
    train.leave()


if __name__ == "__main__":
    main()
