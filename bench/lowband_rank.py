"""A rank of the low-bandwidth benchmark: trains the same model in each way, one after the other, and counts bytes.

    lowband_rank.py FOLDER '{"steps": 200, …}' WAY…

Each way begins with the same weights, draws the same samples and has the same inner optimizer. Bytes are those that
left this node's network interfaces, with all that belongs to them.
"""

import json
import math
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from lowband_text import LETTERS, Chain, windows
from model import GPT, Size, loss_of
from torch import distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from drumbeat import train
from drumbeat.train import gradient_compression, outer_steps, parameter_server

TEXT, HELD_OUT = 100_000, 20_000


@dataclass(frozen=True)
class Settings:
    """What all ways have alike. rows: sequences of a rank in a step."""

    steps: int
    rows: int
    context: int
    layers: int
    channels: int
    lr: float


class Way:
    """How ranks keep each other up to date; this one is stock DistributedDataParallel."""

    def __init__(self, network: GPT, settings: Settings, value: int) -> None:
        self.network, self.settings, self.value = network, settings, value
        self.model: nn.Module = network
        self.optimizer = self.make_optimizer(network.parameters())
        self.prepare()

    def prepare(self) -> None:
        """What is set up beside the optimizer."""
        self.model = DistributedDataParallel(self.network)

    def make_optimizer(self, weights) -> torch.optim.Optimizer:
        """The inner optimizer, of every way."""
        return torch.optim.AdamW(weights, lr=self.settings.lr, weight_decay=0.01, fused=True)

    def set_rate(self, step: int) -> None:
        """Up for a tenth of the steps, then half a cosine down."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate(self.settings, step)

    def step(self) -> None:
        """After the backward pass."""
        self.optimizer.step()
        self.optimizer.zero_grad()

    def finish(self) -> None:
        """After the last step: all ranks have the same weights."""


class Compressed(Way):
    """DDP with a hook of torch's; value: the rank of PowerSGD."""

    kind = ""

    def prepare(self) -> None:
        """DDP with the hook."""
        self.model = DistributedDataParallel(self.network)
        gradient_compression.compress(self.model, self.kind, rank=self.value)


class Bf16(Compressed):
    """Half the bytes."""

    kind = "bf16"


class PowerSGD(Compressed):
    """Two thin matrices for each gradient."""

    kind = "powersgd"


class LocalSGD(Way):
    """The mean of the weights each `value` steps."""

    def prepare(self) -> None:
        """The averaging around the optimizer."""
        self.optimizer = outer_steps.local_sgd(self.optimizer, self.value)

    def finish(self) -> None:
        """The last steps since the mean count, too."""
        outer_steps.average(self.network)


class Outer(Way):
    """DiLoCo's outer step each `value` steps."""

    dtype = torch.float32

    def prepare(self) -> None:
        """The outer optimizer."""
        self.outer = outer_steps.OuterSteps(self.network, self.value, dtype=self.dtype)

    def step(self) -> None:
        """An inner step, and the outer one when it is its turn."""
        super().step()
        self.outer.step()

    def finish(self) -> None:
        """An outer step where the last inner ones had none."""
        if self.outer.steps % self.outer.every:
            self.outer.synchronize()


class OuterBf16(Outer):
    """The same in half the bytes."""

    dtype = torch.bfloat16


class Server(Way):
    """Asynchronous: rank 0 keeps the weights."""

    def prepare(self) -> None:
        """The server, in rank 0."""
        self.updates = parameter_server.AsynchronousUpdates(self.network, self._make_served)

    def _make_served(self, weights: list[torch.Tensor]) -> torch.optim.Optimizer:
        """The optimizer on rank 0, whose schedule goes by the updates of all ranks."""
        optimizer, world = self.make_optimizer(weights), dist.get_world_size()
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: rate(self.settings, step // world) / self.settings.lr
        )
        optimizer.register_step_post_hook(lambda *_: schedule.step())
        return optimizer

    def set_rate(self, step: int) -> None:
        """Rank 0 sets it."""

    def step(self) -> None:
        """Sends gradients, takes weights."""
        self.updates.step()

    def finish(self) -> None:
        """The last weights, once all ranks are done."""
        self.updates.finish()


WAYS = {"ddp": Way, "bf16": Bf16, "powersgd": PowerSGD, "local": LocalSGD, "outer": Outer, "outer-bf16": OuterBf16,
        "server": Server}  # fmt: skip


def rate(settings: Settings, step: int) -> float:
    """The learning rate of a step."""
    rising = max(1, settings.steps // 10)
    return settings.lr * min(1.0, (step + 1) / rising) * (1 + math.cos(math.pi * step / settings.steps)) / 2


def sent() -> int:
    """Bytes that left this node so far."""
    lines = Path("/proc/net/dev").read_text(encoding="ascii").splitlines()[2:]
    fields = [line.replace(":", " ").split() for line in lines]
    return sum(int(field[9]) for field in fields if field[0] != "lo")


def run(name: str, settings: Settings, chain: Chain) -> dict[str, float]:
    """Trains in one way; what it took and how good the model is."""
    kind, _, value = name.partition(":")
    text, held_out = chain.write(TEXT, 2), chain.write(HELD_OUT, 3)
    torch.manual_seed(0)
    network = GPT(Size(LETTERS, settings.context, settings.layers, channels=settings.channels))
    way = WAYS[kind](network, settings, int(value or 0))
    dist.barrier()
    before, began, cpu = sent(), time.perf_counter(), time.process_time()
    for step in range(settings.steps):
        way.set_rate(step)
        draw = torch.Generator().manual_seed(7919 * step + dist.get_rank())
        starts = torch.randint(TEXT - settings.context - 1, (settings.rows,), generator=draw)
        inputs, targets = windows(text, starts, settings.context)
        loss_of(way.model(inputs), targets).backward()
        way.step()
    way.finish()
    dist.barrier()
    took, bytes_sent, computed = time.perf_counter() - began, sent() - before, time.process_time() - cpu
    starts = torch.arange(0, HELD_OUT - settings.context - 1, settings.context)
    inputs, targets = windows(held_out, starts, settings.context)
    with torch.no_grad():
        loss = loss_of(network(inputs), targets).item()
    stale = way.updates.staleness if isinstance(way, Server) else [0]
    return {
        "seconds": took, "sent": bytes_sent, "loss": loss, "floor": chain.floor(held_out), "computed": computed,
        "samples": settings.steps * settings.rows * dist.get_world_size(), "staleness": sum(stale) / len(stale),
        "parameters": sum(weight.numel() for weight in network.parameters()),
    }  # fmt: skip


def main() -> None:
    """Every way, in the order of the command line; each result is written at once."""
    folder, settings, names = Path(sys.argv[1]), Settings(**json.loads(sys.argv[2])), sys.argv[3:]
    torch.set_num_threads(1)
    world = train.init()
    found = {}
    for name in names:
        found[name] = run(name, settings, Chain())
        if world.is_first:
            print(f"{name}: {found[name]['seconds']:.1f} s, loss {found[name]['loss']:.4f}", flush=True)
        (folder / f"{world.rank}.json").write_text(json.dumps(found), encoding="utf-8")
    train.leave()


if __name__ == "__main__":
    main()
