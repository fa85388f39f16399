"""Trains a small image classifier on CIFAR-10 with DeepSpeed's ZeRO.

Any launcher starts it, once per rank: drumbeat (`pytorch` or `mpi`), torchrun, deepspeed; on its own it is one rank:

    drumbeat run job.yml
    deepspeed --num_gpus 2 train.py --data data --deepspeed_config ds_config.json
    python train.py --data data --deepspeed_config ds_config.json
"""

import argparse
import json
import os
import sys
import time
from itertools import pairwise
from pathlib import Path

import deepspeed
import torch
import torch.distributed as dist
from cifar import CLASSES, TESTING, TRAINING, BadData, Split, load
from torch import Tensor, nn

ALONE = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}


def parse_options() -> argparse.Namespace:
    """The options of the command line, DeepSpeed's own among them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with the files of CIFAR-10's binary version")
    parser.add_argument("--model-dir", type=Path, default=Path("model"), help="where rank 0 saves its metrics")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--stage", type=int, choices=range(4), help="ZeRO stage, instead of the configuration's")
    parser.add_argument("--local_rank", type=int, default=-1, help="given by the deepspeed launcher; not used")
    deepspeed.add_config_arguments(parser)
    options = parser.parse_args()
    if not options.deepspeed_config:
        parser.error("--deepspeed_config FILE is needed; ds_config.json lies beside this script")
    return options


class Classifier(nn.Module):
    """A small convolutional network: pixels 0 to 255 in, one logit per class out."""

    def __init__(self) -> None:
        super().__init__()
        widths = (3, 32, 64, 128)
        blocks = [
            nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.GroupNorm(8, b), nn.ReLU(), nn.MaxPool2d(2))
            for a, b in pairwise(widths)
        ]
        self.layers = nn.Sequential(*blocks, nn.Flatten(), nn.Linear(128 * 4 * 4, 128), nn.ReLU())
        self.answer = nn.Linear(128, CLASSES)

    def forward(self, pixels_BCHW: Tensor) -> Tensor:
        """Logits (batch, classes)."""
        return self.answer(self.layers(pixels_BCHW.float() / 127.5 - 1))


def join_ranks() -> None:
    """All ranks find each other, whoever has started them; without a launcher this is the only one."""
    said = os.environ
    if "RANK" not in said and "OMPI_COMM_WORLD_RANK" in said:
        # DeepSpeed would ask mpi4py, and count ranks by host names: wrong where two nodes are on one machine.
        address, _, port = said.get("AZ_BATCH_MASTER_NODE", "127.0.0.1:29500").rpartition(":")
        said["MASTER_ADDR"], said["MASTER_PORT"] = address, port
        for name, of_mpi in (("RANK", "RANK"), ("WORLD_SIZE", "SIZE"), ("LOCAL_RANK", "LOCAL_RANK")):
            said[name] = said[f"OMPI_COMM_WORLD_{of_mpi}"]
    elif "RANK" not in said:
        said.update(ALONE)
    deepspeed.init_distributed(dist_backend="nccl" if torch.cuda.is_available() else "gloo", verbose=False)


def make_engine(options: argparse.Namespace) -> deepspeed.DeepSpeedEngine:
    """The model with its optimizer, divided over the ranks as the configuration says."""
    torch.manual_seed(options.seed)
    model, config = Classifier(), None
    if options.stage is not None:
        config = json.loads(Path(options.deepspeed_config).read_text(encoding="utf-8"))
        config["zero_optimization"]["stage"], options.deepspeed_config = options.stage, None
    return deepspeed.initialize(args=options, model=model, model_parameters=model.parameters(), config=config)[0]


def train_epoch(engine: deepspeed.DeepSpeedEngine, split: Split, seed: int) -> float:
    """One pass over this rank's part of each batch, in an order that is the same on every rank; the mean loss."""
    engine.train()
    rank, world, size = dist.get_rank(), dist.get_world_size(), engine.train_batch_size()
    order = torch.randperm(len(split.labels), generator=torch.Generator().manual_seed(seed))
    losses = []
    for whole in order[: len(order) // size * size].split(size):
        # A batch is one step, in as many pieces as the configuration accumulates gradients over.
        for part in whole[rank::world].split(engine.train_micro_batch_size_per_gpu()):
            logits_BC = engine(split.images[part].to(engine.device))
            loss = nn.functional.cross_entropy(logits_BC, split.labels[part].long().to(engine.device))
            engine.backward(loss)
            engine.step()
            losses.append(loss.detach())
    mean = torch.stack(losses).mean()
    dist.all_reduce(mean)
    return mean.item() / world


@torch.no_grad()
def evaluate(engine: deepspeed.DeepSpeedEngine, split: Split) -> float:
    """The share of right answers. Every rank takes as many steps as the others: ZeRO 3 gathers weights in each."""
    engine.eval()
    rank, world, count = dist.get_rank(), dist.get_world_size(), len(split.labels)
    right = torch.zeros(1, device=engine.device)
    for begin in range(0, count, 256 * world):
        own = torch.arange(begin + rank, begin + 256 * world, world)
        logits_BC = engine(split.images[own % count].to(engine.device))
        right += ((logits_BC.argmax(dim=1).cpu() == split.labels[own % count]) & (own < count)).sum().to(engine.device)
    dist.all_reduce(right)
    return right.item() / count


def train(options: argparse.Namespace, training: Split, testing: Split) -> None:
    """The whole training, from the first weights to the saved metrics."""
    engine = make_engine(options)
    world, stage = dist.get_world_size(), engine.zero_optimization_stage()
    say = print if dist.get_rank() == 0 else lambda *_, **__: None
    say(
        f"{len(training.labels)} images to train on, {len(testing.labels)} to test; {world} ranks, ZeRO {stage}",
        flush=True,
    )
    for epoch in range(1, options.epochs + 1):
        began = time.perf_counter()
        loss = train_epoch(engine, training, options.seed + epoch)
        speed = len(training.labels) / (time.perf_counter() - began)
        say(f"epoch {epoch}/{options.epochs}: loss={loss:.4f} images_per_s={speed:.0f}", flush=True)
    accuracy = evaluate(engine, testing)
    say(f"test: accuracy={accuracy:.4f} images={len(testing.labels)}", flush=True)
    if dist.get_rank() == 0:
        facts = {"test": {"accuracy": accuracy, "images": len(testing.labels)}, "ranks": world, "zero_stage": stage}
        options.model_dir.mkdir(parents=True, exist_ok=True)
        (options.model_dir / ".metrics.json").write_text(json.dumps(facts, indent=1), encoding="utf-8")
        (options.model_dir / ".metrics.json").replace(options.model_dir / "metrics.json")
    # Each rank its own part of the weights and of the optimizer's state.
    engine.save_checkpoint(str(options.model_dir / "checkpoint"), tag="last")


def leave() -> None:
    """Ends a rank that has done its work, at once: a thread of gloo's can abort Python's own shutdown (torch 2.13)."""
    dist.destroy_process_group()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def main() -> None:
    """Reads the data, joins the other ranks, trains, leaves."""
    options = parse_options()
    try:
        # Before the ranks meet, so that one with bad files doesn't leave the others waiting.
        training, testing = load(options.data, TRAINING), load(options.data, TESTING)
    except BadData as error:
        sys.exit(f"train.py: {error}")
    join_ranks()
    train(options, training, testing)
    leave()


if __name__ == "__main__":
    main()
