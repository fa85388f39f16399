"""Trains a small image classifier with Horovod, in the way of Horovod's own PyTorch examples.

    drumbeat run job.yml
    horovodrun -np 2 python train.py --data data
    python train.py --data data

Each rank has its own part of the images and its own batch; Horovod averages the gradients in `optimizer.step()`.
"""

import argparse
import json
import sys
from pathlib import Path

import horovod.torch as hvd
import torch
from digits import BadData, load_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class Net(nn.Module):
    """A small convolutional network for grey images of any size, pixels 0 to 1."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(32, 64, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveMaxPool2d(4),
            nn.Flatten(),
            nn.Linear(64 * 4 * 4, 128),
            nn.ReLU(),
            nn.Linear(128, classes),
        )

    def forward(self, pixels_BHW: torch.Tensor) -> torch.Tensor:
        """Logits (batch, classes)."""
        return self.layers(pixels_BHW.unsqueeze(1))


def parse_options() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with MNIST's four files, plain or .gz")
    parser.add_argument("--model-dir", type=Path, default=Path("model"), help="where rank 0 saves the model")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=32, help="of each rank")
    parser.add_argument("--base-lr", type=float, default=0.02, help="of one rank, multiplied by their number")
    parser.add_argument("--seed", type=int, default=42)
    return parser.parse_args()


def load(folder: Path, split: str) -> TensorDataset:
    """Images, pixels 0 to 1, with their labels."""
    images_BHW, labels_B = load_split(folder, split)
    return TensorDataset(torch.tensor(images_BHW) / 255, torch.tensor(labels_B).long())


def say(line: str) -> None:
    """Prints on rank 0."""
    if hvd.rank() == 0:
        print(line, flush=True)


def average(value: float, name: str) -> float:
    """The mean of a metric over all ranks."""
    return hvd.allreduce(torch.tensor(value, dtype=torch.float64), name=name).item()


def train_epoch(model: nn.Module, loader: DataLoader, optimizer: torch.optim.Optimizer) -> float:
    """One pass over the rank's part; the mean loss over all ranks."""
    model.train()
    total = 0.0
    for pixels_BHW, labels_B in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(pixels_BHW), labels_B)
        loss.backward()
        optimizer.step()
        total += loss.item()
    return average(total / len(loader), "train_loss")


@torch.no_grad()
def test(model: nn.Module, dataset: TensorDataset) -> tuple[float, int]:
    """Share of right answers, and how many images that is of: each is counted once, whatever the number of ranks."""
    model.eval()
    images_BHW, labels_B = (tensor[hvd.rank() :: hvd.size()] for tensor in dataset.tensors)
    right = (model(images_BHW).argmax(dim=1) == labels_B).sum()
    counts = hvd.allreduce(torch.stack([right, torch.tensor(len(labels_B))]), name="counts", op=hvd.Sum).tolist()
    return counts[0] / counts[1], counts[1]


def train(options: argparse.Namespace, training: TensorDataset, testing: TensorDataset) -> None:
    """The whole training, from the first weights to the saved model."""
    # Another seed on each rank: what makes them equal is the broadcast.
    torch.manual_seed(options.seed + hvd.rank())
    model = Net(int(training.tensors[1].max()) + 1)
    sampler = DistributedSampler(training, hvd.size(), hvd.rank(), seed=options.seed)
    loader = DataLoader(training, batch_size=options.batch_size, sampler=sampler)
    optimizer = torch.optim.SGD(model.parameters(), lr=options.base_lr * hvd.size(), momentum=0.9)

    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

    controller = "MPI" if hvd.mpi_enabled() else "Gloo"
    say(f"{hvd.size()} ranks, {hvd.local_size()} on this node, controller {controller}; {len(training)} images")
    for epoch in range(1, options.epochs + 1):
        sampler.set_epoch(epoch)
        loss = train_epoch(model, loader, optimizer)
        accuracy, _ = test(model, testing)
        say(f"epoch {epoch}/{options.epochs}: train_loss={loss:.4f} accuracy={accuracy:.4f}")
    accuracy, images = test(model, testing)
    weights = torch.cat([one.detach().flatten() for one in model.parameters()])
    spread = (
        hvd.allreduce(weights, name="weights", op=hvd.Max) - hvd.allreduce(weights, name="lowest", op=hvd.Min)
    ).abs()
    say(f"test: accuracy={accuracy:.4f} images={images} ranks={hvd.size()} weights_differ_by={spread.max().item():.1e}")
    if hvd.rank() == 0:
        save(options.model_dir, model, {"test": {"accuracy": accuracy, "images": images}, "ranks": hvd.size()})


def save(folder: Path, model: nn.Module, facts: dict[str, object]) -> None:
    """Writes `model.pt` and `metrics.json`."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.save({"weights": model.state_dict(), **facts}, folder / "model.pt")
    (folder / "metrics.json").write_text(json.dumps(facts, indent=1), encoding="utf-8")
    print(f"saved {folder.name}/model.pt", flush=True)


def main() -> None:
    """Reads the data, joins the other ranks, trains."""
    options = parse_options()
    try:
        training, testing = load(options.data, "train"), load(options.data, "t10k")
    except BadData as error:
        sys.exit(f"train.py: {error}")
    hvd.init()
    train(options, training, testing)
    hvd.shutdown()


if __name__ == "__main__":
    main()
