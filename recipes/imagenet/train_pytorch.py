"""Trains ResNet-50 (or -101, -152, MobileNetV2) on ImageNet folders or synthetic images, with DDP or Horovod.

drumbeat run job.yml
torchrun --nproc-per-node 2 train_pytorch.py --train data/train --test data/val
FAKE=True python train_pytorch.py
"""

import copy
import itertools
import os
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import measure
import torch
from checkpoints import Checkpoints
from folders import BadData, ImageFolder, list_images
from loader import Jpegs, Shard, Synthetic, make_loader, normalized
from networks import MODELS, make_network
from ranks import WAYS, Ranks
from report import Report
from settings import FAKE_CLASSES, Settings, read_settings
from torch import Tensor, nn

from drumbeat import train
from drumbeat.train.launchers import read_identity


@dataclass(frozen=True)
class Images:
    """What is trained on and, if anything is, validated with."""

    training: Jpegs | Synthetic
    testing: Jpegs | None
    classes: list[str]


def load_images(settings: Settings) -> Images:
    """Lists the images. Raises BadData."""
    if settings.train is None:
        synthetic = Synthetic(settings.fake_images, settings.image_size, FAKE_CLASSES)
        return Images(synthetic, None, [str(number) for number in range(FAKE_CLASSES)])
    folder = list_images(settings.train)
    tests: ImageFolder | None = list_images(settings.test, folder.classes) if settings.test else None
    testing = Jpegs(tests, settings.image_size, None) if tests else None
    return Images(Jpegs(folder, settings.image_size, settings.seed), testing, folder.classes)


class Training:
    """The network, its optimizer and its data on one rank."""

    def __init__(self, settings: Settings, images: Images, ranks: Ranks) -> None:
        self.settings, self.images, self.ranks = settings, images, ranks
        self.report = Report(settings, ranks.rank, ranks.size, ranks.device.type == "cuda")
        torch.manual_seed(settings.seed)
        self.network = make_network(settings.model, len(images.classes)).to(ranks.device)
        if settings.channels_last:
            self.network = self.network.to(memory_format=torch.channels_last)
        workers = min(settings.workers, max(1, len(os.sched_getaffinity(0))))
        self.workers = workers if settings.train else 0
        self.shard = Shard(len(images.training), ranks.rank, ranks.size, batch=settings.batch_size, seed=settings.seed)
        self.loader = make_loader(images.training, self.shard, settings.batch_size, self.workers)
        self.steps_per_epoch = len(self.loader)
        self.scaling = train.scaled(
            settings.base_lr,
            batch_per_rank=settings.batch_size,
            rule=settings.rule,
            warmup_steps=round(settings.warmup_epochs * self.steps_per_epoch),
        )
        self.model, self.optimizer = ranks.wrap(self.network, self.make_optimizer(self.network))
        if settings.compile:
            self.model = torch.compile(self.model)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, self.scaling.factor)

    def begin_schedule(self, done: int) -> None:
        """Sets the learning rates of these ranks, which may be more or fewer than before, after so many steps."""
        for group in self.optimizer.param_groups:
            group["lr"] = group["initial_lr"] = self.scaling.lr
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, self.scaling.factor, last_epoch=done - 1)

    def make_optimizer(self, network: nn.Module) -> torch.optim.Optimizer:
        """SGD as in the reference, and by LARS where the rule says so."""
        settings = self.settings
        optimizer = torch.optim.SGD(
            network.parameters(), self.scaling.lr, settings.momentum, weight_decay=settings.weight_decay
        )
        return train.use_lars(optimizer) if settings.rule == "lars" else optimizer

    def autocast(self) -> AbstractContextManager:
        """Computes in bfloat16 where that was asked for."""
        is_bf16 = self.settings.precision == "bf16"
        return torch.autocast(self.ranks.device.type, torch.bfloat16, enabled=is_bf16)

    def step(self, model: nn.Module, optimizer: torch.optim.Optimizer, batch: tuple[Tensor, Tensor]) -> Tensor:
        """One update; the loss, on the device."""
        device = self.ranks.device
        x_BCHW = normalized(batch[0], device, is_channels_last=self.settings.channels_last)
        labels_B = batch[1].to(device, non_blocking=True)
        optimizer.zero_grad()
        with self.autocast():
            loss = nn.functional.cross_entropy(model(x_BCHW), labels_B)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def train(self) -> None:
        """All epochs, from the last checkpoint on if there is one."""
        checkpoints = Checkpoints(self)
        first, done, lost = checkpoints.restore()
        images, begun = 0, time.perf_counter()
        for epoch in range(first, self.settings.epochs + 1):
            started = time.perf_counter()
            count, loss = self.train_epoch(epoch, checkpoints, *((done, lost) if epoch == first else (0, 0.0)))
            images += count
            seconds = time.perf_counter() - started
            self.report.epoch(epoch, count, seconds, loss=loss, accuracy=self.validate())
            checkpoints.save_after(epoch)
        self.report.throughput(images, time.perf_counter() - begun)
        self.save()

    def train_epoch(self, epoch: int, checkpoints: Checkpoints, done: int, lost: float) -> tuple[int, float]:
        """One pass over this rank's part; the images of all ranks that it took, and the epoch's mean loss.

        done: steps before a restart. lost: the sum of their losses over all ranks.
        """
        self.model.train()
        self.shard.set_epoch(epoch)
        self.images.training.epoch.fill_(epoch)
        total = torch.full((), 0.0 if self.ranks.rank else lost, dtype=torch.float64, device=self.ranks.device)
        step = done
        for step, batch in enumerate(self.loader, done + 1):
            total += self.step(self.model, self.optimizer, batch)
            self.schedule.step()
            checkpoints.save_at(epoch, step, total)
        mean = self.ranks.sum(total).item() / max(step, 1) / self.ranks.size
        return (step - done) * self.settings.batch_size * self.ranks.size, mean

    @torch.no_grad()
    def validate(self) -> float:
        """Returns the share of right answers over all ranks, each image counted once; NaN without images to test."""
        if self.images.testing is None:
            return float("nan")
        self.network.eval()
        device = self.ranks.device
        shard = Shard(len(self.images.testing), self.ranks.rank, self.ranks.size, is_whole=True)
        counts = torch.zeros(2, dtype=torch.float64, device=device)
        self.average_statistics()
        for pixels_BCHW, labels_B in make_loader(self.images.testing, shard, self.settings.batch_size, 0):
            logits_BC = self.network(normalized(pixels_BCHW, device))
            counts += torch.tensor([(logits_BC.argmax(1).cpu() == labels_B).sum(), len(labels_B)], device=device)
        right, count = self.ranks.sum(counts).tolist()
        return right / count

    def average_statistics(self) -> None:
        """Makes the batch norms of all ranks equal: each has seen its own batches only."""
        for name, values in self.network.named_buffers():
            if name.endswith(("running_mean", "running_var")):
                values.copy_(self.ranks.sum(values.clone()) / self.ranks.size)

    def save(self) -> None:
        """Writes `model.pt` on rank 0, whole or not at all."""
        folder, name = self.settings.model_dir, "model.pt"
        if self.ranks.rank == 0:
            folder.mkdir(parents=True, exist_ok=True)
            facts = {"model": self.settings.model, "classes": self.images.classes}
            torch.save({"weights": self.network.state_dict(), **facts}, folder / f".{name}")
            (folder / f".{name}").replace(folder / name)
        self.report.save("pytorch", folder / name, learning_rate=self.scaling.lr)

    def measure(self) -> None:
        """Measures instead of training."""
        alone = copy.deepcopy(self.network)
        own, batches = self.make_optimizer(alone), self.endless_batches()
        alone = torch.compile(alone) if self.settings.compile else alone
        self.model.train()
        alone.train()

        def together(batch: tuple[Tensor, Tensor]) -> None:
            self.step(self.model, self.optimizer, batch).item()

        steps = measure.Steps(
            next_batch=lambda: next(batches),
            together=together,
            alone=lambda batch: float(self.step(alone, own, batch)),
            barrier=lambda: self.ranks.sum(torch.zeros(1, device=self.ranks.device)),
            highest=lambda values: self.ranks.highest(torch.tensor(values, device=self.ranks.device)).tolist(),
        )
        blocks = measure.measure(steps, self.settings.measure_steps, self.settings.batch_size * self.ranks.size)
        if self.ranks.rank == 0:
            count = sum(weights.numel() for weights in self.network.parameters())
            facts = {"framework": "pytorch", "parameters": count, "device": device_name(self.ranks.device)}
            measure.save(self.settings.model_dir, blocks, facts)

    def endless_batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Epoch after epoch."""
        for epoch in itertools.count(1):
            self.shard.set_epoch(epoch)
            self.images.training.epoch.fill_(epoch)
            yield from self.loader


def device_name(device: torch.device) -> str:
    """The name of a GPU, or `cpu`."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"


def main() -> None:
    """Reads the images, joins the other ranks, trains or measures."""
    size = read_identity(os.environ).world_size
    settings = read_settings("Trains an image classifier.", models=MODELS, ways=("ddp", "horovod"), size=size)
    try:
        # Before the ranks meet, so that one with bad files doesn't leave the others waiting.
        images = load_images(settings)
    except BadData as error:
        sys.exit(f"{Path(__file__).name}: {error}")
    if (settings.rule, settings.distributed) == ("lars", "horovod"):
        sys.exit("--rule lars needs the averaged gradients before the step, which Horovod has within it: take ddp")
    if len(images.training) < settings.batch_size * size:
        sys.exit(f"{len(images.training)} images are fewer than one step takes: {size} x {settings.batch_size}")
    ranks = WAYS[settings.distributed]()
    training = Training(settings, images, ranks)
    parameters = sum(weights.numel() for weights in training.network.parameters())
    training.report.say(
        f"{settings.model}, {parameters:,} parameters; {len(images.training)} images of "
        f"{len(images.classes)} classes ({settings.dataset}), {settings.image_size}x{settings.image_size}; "
        f"{training.report.ranks} on {ranks.device.type} by {settings.distributed}"
    )
    if settings.measure_steps:
        training.measure()
    else:
        training.train()
    ranks.leave()


if __name__ == "__main__":
    main()
