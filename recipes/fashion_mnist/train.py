"""Trains a small image classifier on Fashion-MNIST with PyTorch's DistributedDataParallel.

Any launcher that sets torch's usual variables starts it, once per rank; on its own it is one rank:

    drumbeat run job.yml
    torchrun --nproc-per-node 2 train.py --data data
    python train.py --data data

`--batch-size` is the batch of all ranks together, and each rank takes its part of the very same batches, so the number
of ranks changes the speed and not the result.
"""

import argparse
import json
import os
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from idx import BadData, load_split
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import BatchSampler, DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

VALIDATION_SHARE = 0.2
EVALUATION_BATCH = 1024


@dataclass(frozen=True)
class Scores:
    """What a pass over a data set gave, over all ranks."""

    loss: float
    accuracy: float
    images: int


@dataclass(frozen=True)
class Data:
    """Images (pixels 0 to 255) with labels, and the number of classes."""

    training: TensorDataset
    validation: TensorDataset
    testing: TensorDataset
    classes: int


def say(line: str) -> None:
    """Prints on rank 0, at once."""
    if dist.get_rank() == 0:
        print(line, flush=True)


def parse_options() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with the four IDX files, plain or .gz")
    parser.add_argument("--model-dir", type=Path, default=Path("model"), help="where rank 0 saves the model")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=64, help="of all ranks together")
    parser.add_argument("--lr", type=float, default=0.1, help="highest learning rate")
    parser.add_argument("--seed", type=int, default=42)
    options = parser.parse_args()
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if options.epochs < 1:
        parser.error(f"--epochs {options.epochs}: at least 1 is needed")
    if options.batch_size < 1 or options.batch_size % world:
        parser.error(
            f"--batch-size {options.batch_size} doesn't split evenly over {world} ranks: take a multiple of {world}"
        )
    return options


def load_data(options: argparse.Namespace) -> Data:
    """The folder's two splits; a fifth of the training images are kept for validation, the same on every rank."""
    (images, labels), (test_images, test_labels) = load_split(options.data, "train"), load_split(options.data, "t10k")
    if images.shape[1:] != test_images.shape[1:]:
        sizes = " and ".join("x".join(map(str, some.shape[1:])) for some in (images, test_images))
        raise BadData(f"{options.data}: the images to train on and to test on differ in size, {sizes}")
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(options.seed))
    cut = len(images) - max(1, int(len(images) * VALIDATION_SHARE))
    if cut < options.batch_size:
        raise BadData(f"{options.data} leaves {cut} images to train on, fewer than --batch-size {options.batch_size}")
    return Data(
        training=TensorDataset(images[order[:cut]], labels[order[:cut]].long()),
        validation=TensorDataset(images[order[cut:]], labels[order[cut:]].long()),
        testing=TensorDataset(test_images, test_labels.long()),
        classes=int(max(labels.max(), test_labels.max())) + 1,
    )


def join_ranks() -> torch.device:
    """The device of this rank, once all ranks have found each other; without a launcher this is the only one."""
    alone = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    if "RANK" not in os.environ:
        os.environ.update(alone)
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
        torch.cuda.set_device(device)
        dist.init_process_group("nccl", init_method="env://", device_id=device)
        return device
    dist.init_process_group("gloo", init_method="env://")
    return torch.device("cpu")


class Classifier(nn.Module):
    """A small convolutional network for grey images of any size: pixels 0 to 255 in, one logit per class out."""

    def __init__(self, classes: int, mean: float, std: float) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean))
        self.register_buffer("std", torch.tensor(std))
        # Group norm, since batch norm would make the result depend on how the batch is split over ranks.
        self.layers = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1),
            nn.GroupNorm(8, 32),
            nn.ReLU(),
            nn.AdaptiveMaxPool2d(14),
            nn.Conv2d(32, 64, 3, padding=1),
            nn.GroupNorm(8, 64),
            nn.ReLU(),
            nn.AdaptiveMaxPool2d(4),
            nn.Flatten(),
            nn.Linear(64 * 4 * 4, 128),
            nn.ReLU(),
            nn.Linear(128, classes),
        )

    def forward(self, pixels_BHW: Tensor) -> Tensor:
        """Logits (batch, classes)."""
        return self.layers(((pixels_BHW.float() - self.mean) / self.std).unsqueeze(1))


def make_loader(dataset: TensorDataset, options: argparse.Namespace) -> tuple[DataLoader, DistributedSampler]:
    """The part of each batch that is this rank's, and the sampler that draws a new order every epoch."""
    sampler = DistributedSampler(dataset, shuffle=True, seed=options.seed, drop_last=True)
    batches = BatchSampler(sampler, options.batch_size // dist.get_world_size(), drop_last=True)
    return DataLoader(dataset, sampler=batches, batch_size=None), sampler


def train_epoch(model: nn.Module, loader: DataLoader, optimizer: torch.optim.Optimizer, schedule) -> float:
    """One pass over the training set; the mean loss over all ranks."""
    model.train()
    device = next(model.parameters()).device
    total = torch.zeros((), device=device)
    for pixels_BHW, labels_B in loader:
        loss = nn.functional.cross_entropy(model(pixels_BHW.to(device)), labels_B.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        total += loss.detach()
    dist.all_reduce(total)
    return total.item() / len(loader) / dist.get_world_size()


@torch.no_grad()
def evaluate(model: nn.Module, dataset: TensorDataset) -> Scores:
    """Exact scores: each image is counted once, on one rank, whatever the number of ranks."""
    model.eval()
    device = next(model.parameters()).device
    images, labels = (tensor[dist.get_rank() :: dist.get_world_size()] for tensor in dataset.tensors)
    sums = torch.zeros(3, dtype=torch.float64, device=device)  # loss, right answers, images
    for pixels_BHW, labels_B in zip(images.split(EVALUATION_BATCH), labels.split(EVALUATION_BATCH), strict=True):
        answers_B = labels_B.to(device)
        logits_BC = model(pixels_BHW.to(device))
        sums[0] += nn.functional.cross_entropy(logits_BC, answers_B, reduction="sum")
        sums[1] += (logits_BC.argmax(dim=1) == answers_B).sum()
        sums[2] += len(answers_B)
    dist.all_reduce(sums)
    loss, right, count = sums.tolist()
    return Scores(loss / count, right / count, int(count))


def save(model: nn.Module, folder: Path, facts: dict[str, object]) -> None:
    """Writes `model.pt` and `metrics.json`, each whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.save({"weights": model.state_dict(), **facts}, folder / ".model.pt")
    (folder / ".model.pt").replace(folder / "model.pt")
    (folder / ".metrics.json").write_text(json.dumps(facts, indent=1), encoding="utf-8")
    (folder / ".metrics.json").replace(folder / "metrics.json")


def describe(data: Data, options: argparse.Namespace, device: torch.device) -> str:
    """The first line of the log: sizes, ranks, batch, seed."""
    world, (height, width) = dist.get_world_size(), data.testing.tensors[0].shape[1:]
    return (
        f"{len(data.training)} images to train on, {len(data.validation)} to validate, {len(data.testing)} to test, "
        f"{height}x{width}, {data.classes} classes; {world} ranks on {device.type}, "
        f"batch {options.batch_size} = {world} x {options.batch_size // world}, seed {options.seed}"
    )


def train(data: Data, options: argparse.Namespace, device: torch.device) -> None:
    """The whole training, from the first weights to the saved model."""
    torch.manual_seed(options.seed)
    pixels = data.training.tensors[0].float()
    network = Classifier(data.classes, pixels.mean().item(), pixels.std().item()).to(device)
    model = DistributedDataParallel(network, device_ids=[device.index] if device.type == "cuda" else None)
    loader, sampler = make_loader(data.training, options)
    optimizer = torch.optim.SGD(model.parameters(), lr=options.lr, momentum=0.9, weight_decay=5e-4)
    steps = options.epochs * len(loader)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, options.lr, total_steps=steps, pct_start=0.25)

    say(describe(data, options, device))
    speed = 0.0
    for epoch in range(1, options.epochs + 1):
        sampler.set_epoch(epoch)
        started = time.perf_counter()
        loss = train_epoch(model, loader, optimizer, schedule)
        speed = len(loader) * options.batch_size / (time.perf_counter() - started)
        scores = evaluate(network, data.validation)
        say(
            f"epoch {epoch}/{options.epochs}: train_loss={loss:.4f} val_loss={scores.loss:.4f} "
            f"val_accuracy={scores.accuracy:.4f} images_per_s={speed:.0f}"
        )
    scores = evaluate(network, data.testing)
    say(f"test: loss={scores.loss:.4f} accuracy={scores.accuracy:.4f} images={scores.images}")
    facts = {"test": asdict(scores), "images_per_s": round(speed), "ranks": dist.get_world_size()}
    if dist.get_rank() == 0:
        save(network, options.model_dir, {**facts, "seed": options.seed, "epochs": options.epochs})
        say(f"saved {options.model_dir.name}/model.pt")


def leave() -> None:
    """Ends a rank that has done its work, at once.

    Python's own shutdown can abort it after all is done: a thread of gloo's may still be letting go of the last tensor,
    and needs the interpreter for that ("terminate called without an active exception", torch 2.13, 1 run in 40).
    """
    dist.destroy_process_group()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def main() -> None:
    """Reads the data, joins the other ranks, trains, leaves."""
    options = parse_options()
    try:
        # Before the ranks meet, so that one with bad files doesn't leave the others waiting.
        data = load_data(options)
    except BadData as error:
        sys.exit(f"train.py: {error}")
    train(data, options, join_ranks())
    leave()


if __name__ == "__main__":
    main()
